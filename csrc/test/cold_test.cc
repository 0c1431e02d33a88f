// A table with rows on the disk is a table: the same bits, whatever is where.
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include "disk/file.h"
#include "folders.h"
#include "tables.h"

namespace {

using fleet::Dtype;

constexpr std::size_t kTiny = 64 * 5000;  // some dozen rows of a shard

struct Pair {
  explicit Pair(const Setup& setup) : plain(make_table(setup)) {
    Setup other = setup;
    other.memory_bytes = kTiny;
    other.folder = folder.path + "/rows";
    cold = make_table(other);
  }

  Folder folder;
  std::unique_ptr<fleet::Table> plain, cold;
};

std::vector<Setup> setups() {
  Setup click{"sgd", {}, "show_click", {{"threshold", 2}, {"nonclk_coeff", 0.5}, {"click_coeff", 1}}};
  Setup half{"adagrad"};
  half.dtype = Dtype::kBfloat16;
  half.width = 5;
  Setup wide{"adam"};
  wide.width = 700;
  return {{"adagrad"}, {"adagrad", {}, "count_filter", {{"count", 2}}}, click, half, wide};
}

// Keys of which some come again and again.
Keys drawn(std::size_t n, std::size_t num_keys, std::mt19937_64& random) {
  Keys keys(n);
  for (auto& key : keys) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    key = static_cast<std::int64_t>(u * u * u * static_cast<double>(num_keys)) * 7919;
  }
  return keys;
}

fleet::Pushed push_both(Pair& pair, const Keys& keys, std::uint32_t step, std::mt19937_64& random) {
  Floats grads(keys.size() * pair.plain->format().width);
  for (float& g : grads) g = static_cast<float>(random() % 2000) * 1e-3f - 1;
  Extra extra;
  extra.step = step;
  for (std::size_t i = 0; i < keys.size(); ++i) extra.clicks.push_back(i % 3 == 0 ? 1.0f : 0.0f);
  const fleet::Pushed expected = push(*pair.plain, keys, grads, extra), found = push(*pair.cold, keys, grads, extra);
  CHECK(expected.created == found.created && expected.waiting == found.waiting);
  return found;
}

}  // namespace

TEST(cold_rows_have_the_same_bits) {
  for (const Setup& setup : setups()) {
    Pair pair(setup);
    std::mt19937_64 random(setup.width);
    const std::size_t num_keys = setup.width > 100 ? 1000 : 20000, n = num_keys / 10;
    for (std::uint32_t step = 1; step <= 30; ++step) {
      const Keys keys = drawn(n, num_keys, random), asked = drawn(n, num_keys * 2, random);
      push_both(pair, keys, step, random);
      CHECK(pull(*pair.cold, asked) == pull(*pair.plain, asked));
      CHECK(pair.cold->size() == pair.plain->size() && pair.cold->num_waiting() == pair.plain->num_waiting());
      if (step % 10 == 0) {
        const fleet::ShrinkRule rule{step, 8, true, 0.9, 0.75};
        const std::size_t num_doomed = pair.cold->doomed(rule).size();
        CHECK(num_doomed == pair.plain->doomed(rule).size());
        CHECK(pair.cold->shrink(rule) == num_doomed && pair.plain->shrink(rule) == num_doomed);
        CHECK(pair.cold->size() == pair.plain->size());
        CHECK(pair.cold->newest_step() == pair.plain->newest_step());
      }
      if (step % 15 == 0) CHECK(holding_of(*pair.cold) == holding_of(*pair.plain));
      std::vector<std::uint8_t> expected(n), found(n);
      pair.plain->find(asked.data(), n, expected.data());
      pair.cold->find(asked.data(), n, found.data());
      CHECK(expected == found);
    }
    const fleet::TierCounts counts = pair.cold->tier_counts();
    CHECK(counts.hot_rows + counts.cold_rows == pair.cold->size());
    CHECK(counts.reads > 0 && counts.spilled_rows > 0 && counts.files < 64 * 32);
    pair.plain->clear();
    pair.cold->clear();
    CHECK(pair.cold->size() == 0 && names_in(pair.folder.path + "/rows").empty());
    push_both(pair, drawn(n, num_keys, random), 99, random);
    CHECK(holding_of(*pair.cold) == holding_of(*pair.plain));
  }
}

TEST(cold_rows_are_restored) {
  for (const Setup& setup : setups()) {
    Pair pair(setup), other(setup), linked(setup);
    std::mt19937_64 random(3);
    const std::size_t num_keys = setup.width > 100 ? 1000 : 15000;
    for (std::uint32_t step = 1; step <= 20; ++step)
      push_both(pair, drawn(num_keys / 10, num_keys, random), step, random);
    // As rows, over others that must go; and into two servers.
    push_ones(*other.cold, drawn(1000, num_keys, random), {1});
    for (std::size_t s = 0; s < 64; s += 16) other.cold->restore(view_of(pair.cold->dump(s, s + 16)), 0, 1);
    const Holding over = holding_of(*other.cold);
    for (const auto& [key, row] : holding_of(*pair.plain).rows) CHECK(over.rows.at(key) == row);
    other.cold->clear();
    other.plain->clear();
    std::size_t taken = 0;
    for (std::uint32_t server = 0; server < 2; ++server) {
      taken += other.cold->restore(view_of(pair.cold->dump(0, 64)), server, 2);
    }
    CHECK(taken == pair.plain->size() && holding_of(*other.cold) == holding_of(*pair.plain));
    // As files with what changed since they were sealed; both go on alike.
    const std::string folder = linked.folder.path + "/links";
    CHECK(::mkdir(folder.c_str(), 0700) == 0);
    for (std::size_t s = 0; s < 64; s += 8) {
      std::vector<fleet::ShardFiles> all;
      const fleet::Rows changed = pair.cold->seal(s, s + 8, folder, "a.", all);
      for (const fleet::ShardFiles& files : all) linked.cold->attach(files, folder);
      fleet::RowsView view = view_of(changed);
      view.on_disk = changed.on_disk.data();
      linked.cold->restore(view, 0, 1);
    }
    CHECK(linked.cold->size() == pair.cold->size() && holding_of(*linked.cold) == holding_of(*pair.plain));
    CHECK(refusal([&] { linked.cold->attach({0, 0, {}}, folder); }) != "");
    other.plain->clear();  // rows of files into a table that has none
    for (std::size_t s = 0; s < 64; ++s) {
      const std::string again = linked.folder.path + "/again-" + std::to_string(s);
      CHECK(::mkdir(again.c_str(), 0700) == 0);
      std::vector<fleet::ShardFiles> all;
      const fleet::Rows changed = pair.cold->seal(s, s + 1, again, "", all);
      const auto& names = all[0].names;
      for (auto name = names.rbegin(); name != names.rend(); ++name)
        other.plain->restore_file(again + "/" + *name, 0, 1);
      other.plain->restore(view_of(changed), 0, 1);
    }
    CHECK(holding_of(*other.plain) == holding_of(*pair.plain));
    linked.plain.swap(pair.plain);
    pair.cold->clear();  // the links stay
    for (std::uint32_t step = 21; step <= 26; ++step) {
      push_both(linked, drawn(num_keys / 10, num_keys, random), step, random);
    }
    CHECK(holding_of(*linked.cold) == holding_of(*linked.plain));
    if (setup.entry == "always") CHECK(linked.cold->tier_counts().brought_rows > 0);
  }
}

TEST(cold_rows_and_many_threads) {
  // Counts do not depend on the order they come in, and sums hardly.
  Setup setup;
  setup.width = 8;
  Pair pair(setup);
  constexpr std::size_t kThreads = 4, kSteps = 12;
  const auto work = [&](fleet::Table& table, std::size_t thread) {
    std::mt19937_64 random(thread);
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      push_ones(table, drawn(1500, 20000, random), {step, 1.0});
      pull(table, drawn(1500, 20000, random));
      if (thread == 0 && step % 5 == 0) table.dump(0, 64);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { work(*pair.cold, t); });
  for (auto& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) work(*pair.plain, t);
  const Holding expected = holding_of(*pair.plain), found = holding_of(*pair.cold);
  CHECK(found.rows.size() == expected.rows.size());
  for (const auto& [key, row] : expected.rows) {
    const Held& other = found.rows.at(key);
    float a, b;
    std::memcpy(&a, row.values.data(), sizeof(a));
    std::memcpy(&b, other.values.data(), sizeof(b));
    CHECK(other.seen == row.seen && other.step == row.step && std::abs(a - b) < 1e-3f);
  }
}

TEST(cold_rows_and_a_full_disk) {
  Setup setup;
  setup.width = 16;
  Pair pair(setup);
  std::mt19937_64 random(5);
  for (std::uint32_t step = 1; step <= 20; ++step) push_both(pair, drawn(2000, 60000, random), step, random);
  // No file may grow: what the system says then is what it says of a full disk, but for the word.
  rlimit former{}, none{};
  CHECK(::getrlimit(RLIMIT_FSIZE, &former) == 0);
  none.rlim_max = former.rlim_max;
  const auto former_handler = std::signal(SIGXFSZ, SIG_IGN);
  CHECK(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  std::string said;
  std::uint32_t step = 21;
  for (; step < 60 && said.empty(); ++step) {
    const Keys keys = drawn(2000, 60000, random);
    const Floats grads(keys.size() * setup.width, 1);
    try {
      push(*pair.cold, keys, grads, {step});
    } catch (const fleet::disk::DiskError& error) {
      said = error.what();
    }
    if (said.empty()) push(*pair.plain, keys, grads, {step});  // what was refused has not happened
  }
  CHECK(said.find("takes no push: its memory is full and rows cannot be moved to the disk") != std::string::npos);
  CHECK(said.find('\n') == std::string::npos);
  const Keys asked = drawn(3000, 60000, random);
  CHECK(pull(*pair.cold, asked) == pull(*pair.plain, asked));
  CHECK(::setrlimit(RLIMIT_FSIZE, &former) == 0);
  std::signal(SIGXFSZ, former_handler);
  for (; step < 70; ++step) push_both(pair, drawn(2000, 60000, random), step, random);
  CHECK(holding_of(*pair.cold) == holding_of(*pair.plain));
}

TEST(cold_tables_that_cannot_be) {
  const Folder folder;
  Setup setup;
  setup.memory_bytes = 1 << 20;
  CHECK(refusal([&] { make_table(setup); }).find("memory needs a folder") != std::string::npos);
  setup.folder = folder.path;
  setup.max_bytes = 1 << 20;
  CHECK(refusal([&] { make_table(setup); }).find("give one of them") != std::string::npos);
  setup.max_bytes = 0;
  setup.folder = "/proc/no/such";
  bool is_refused = false;
  try {
    make_table(setup);
  } catch (const fleet::disk::DiskError&) {
    is_refused = true;
  }
  CHECK(is_refused);
}
