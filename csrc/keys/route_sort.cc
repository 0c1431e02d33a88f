// Five steps, each in parts that share nothing:
//
//   drop     each run of inputs loses most of its repeats; where[i] says which survivor stands for input i
//   spread   survivors go to buckets by their highest bits, so few to a bucket that they fit the first-level cache
//   sort     buckets are sorted, and their distinct keys and servers noted; a part is a run of buckets
//   place    now that the keys of each server are counted, distinct keys go where they belong, and so does the rank of
//            each survivor
//   invert   inverse[i] is the rank of the survivor where[i]
#include "keys/route_sort.h"

#include <algorithm>
#include <utility>

#include "keys/hash.h"
#include "keys/radix.h"
#include "keys/scratch.h"
#include "keys/survivors.h"
#include "threads/team.h"

namespace fleet {
namespace {

// Of survivors in a bucket, on average at most; 16 bytes each, twice.
constexpr std::size_t kBucketSize = 1024;
constexpr int kMaxBucketBits = 10;

class Sorting {
 public:
  Sorting(const std::int64_t* keys, std::size_t n, Bounds bounds, std::uint32_t num_servers, bool with_counts,
          std::size_t num_parts)
      : keys_(keys),
        n_(n),
        base_(static_cast<std::uint64_t>(bounds.min)),
        range_(static_cast<std::uint64_t>(bounds.max) - base_),
        num_servers_(num_servers),
        with_counts_(with_counts),
        num_parts_(std::min(num_parts, n)),
        counts_kept_(with_counts && num_parts_ > 1),
        kept_(n),
        kept_counts_(counts_kept_ ? n : 0),
        num_kept_(num_parts_) {}

  Route run() {
    Route out{{}, Array<std::int64_t>(n_), Array<std::int64_t>(std::size_t{num_servers_} + 1), {}};
    std::int64_t* const inverse = out.inverse.data();
    each_part([&](std::size_t part) { drop(part, inverse); });
    std::size_t total = 0;
    for (std::size_t part = 0; part < num_parts_; ++part) total += num_kept_[part];
    bucket_bits_ = std::min({kMaxBucketBits, bit_width(total / kBucketSize), bit_width(range_)});
    shift_ = bit_width(range_) - bucket_bits_;
    place(total, out);
    return out;
  }

 private:
  template <class Work>
  void each_part(const Work& work) {
    if (num_parts_ == 1) return work(0);
    Team::shared().parallel_for(num_parts_, work);
  }

  std::size_t num_buckets() const { return std::size_t{1} << bucket_bits_; }
  std::size_t bucket(std::uint64_t key) const { return bucket_bits_ == 0 ? 0 : key >> shift_; }
  // The largest number that the keys of a bucket may differ by.
  std::uint64_t bucket_range() const { return shift_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << shift_) - 1; }
  Slice inputs(std::size_t part) const { return slice_of(n_, num_parts_, part); }

  void drop(std::size_t part, std::int64_t* where) {
    const auto [begin, end] = inputs(part);
    const Survivors to{kept_.data() + begin, counts_kept_ ? kept_counts_.data() + begin : nullptr, where + begin};
    num_kept_[part] = drop_repeats(keys_ + begin, end - begin, base_, static_cast<std::uint32_t>(begin), to);
  }

  // next[part * num_buckets + b] = where the part's survivors of bucket b begin; begins[b] = where the bucket does.
  void count(std::uint32_t* next, std::uint32_t* begins) {
    each_part([&](std::size_t part) {
      std::uint32_t* const counts = next + part * num_buckets();
      std::fill_n(counts, num_buckets(), 0);
      const std::uint64_t* const kept = kept_.data() + inputs(part).begin;
      for (std::size_t i = 0; i < num_kept_[part]; ++i) ++counts[bucket(kept[i])];
    });
    std::uint32_t begin = 0;
    for (std::size_t b = 0; b < num_buckets(); ++b) {
      begins[b] = begin;
      for (std::size_t part = 0; part < num_parts_; ++part) {
        begin += std::exchange(next[part * num_buckets() + b], begin);
      }
    }
    begins[num_buckets()] = begin;
  }

  void spread(std::size_t part, std::uint32_t* next, Tagged* pairs) {
    const std::size_t first = inputs(part).begin;
    for (std::size_t i = first; i < first + num_kept_[part]; ++i) {
      pairs[next[bucket(kept_[i])]++] = {kept_[i], static_cast<std::uint32_t>(i)};
    }
  }

  // Sorts the buckets of a part, and writes their distinct keys from where the first of them begins; how many.
  std::size_t sort(Slice buckets, const std::uint32_t* begins, Tagged* pairs, std::int64_t* distinct) {
    std::size_t largest = 0;
    for (std::size_t b = buckets.begin; b < buckets.end; ++b) {
      largest = std::max<std::size_t>(largest, begins[b + 1] - begins[b]);
    }
    Scratch<Tagged> spare(largest);
    std::int64_t* last = distinct + begins[buckets.begin] - 1;
    std::int64_t* const before = last;
    for (std::size_t b = buckets.begin; b < buckets.end; ++b) {
      Tagged* const own = pairs + begins[b];
      const std::size_t size = begins[b + 1] - begins[b];
      if (size == 0) continue;
      const Tagged* sorted = radix_sort(own, spare.data(), size, bucket_range());
      if (sorted != own) std::copy_n(sorted, size, own);
      std::uint64_t previous = ~own[0].key;
      for (std::size_t i = 0; i < size; ++i) {
        last += own[i].key != previous;
        previous = own[i].key;
        *last = static_cast<std::int64_t>(previous + base_);
      }
    }
    return static_cast<std::size_t>(last - before);
  }

  void place(std::size_t total, Route& out) {
    Scratch<std::uint32_t> next(num_parts_ * num_buckets());
    Scratch<std::uint32_t> begins(num_buckets() + 1);
    count(next.data(), begins.data());
    Scratch<Tagged> pairs(total);
    each_part([&](std::size_t part) { spread(part, next.data() + part * num_buckets(), pairs.data()); });

    // Each part has about as many survivors as another: keys may crowd in a few buckets.
    Scratch<std::size_t> first(num_parts_ + 1);
    for (std::size_t part = 0; part <= num_parts_; ++part) {
      const auto wanted = static_cast<std::uint32_t>(slice_of(total, num_parts_, part).begin);
      const auto* at = std::lower_bound(begins.data(), begins.data() + num_buckets(), wanted);
      first[part] = part == num_parts_ ? num_buckets() : static_cast<std::size_t>(at - begins.data());
    }

    Scratch<std::int64_t> distinct(total);
    Scratch<std::size_t> num_distinct(num_parts_);
    Scratch<std::uint16_t> server(num_servers_ > 1 ? total : 0);
    Scratch<std::uint32_t> of_server(num_parts_ * num_servers_);  // keys of each part; then where they begin
    each_part([&](std::size_t part) {
      const std::size_t begin = begins[first[part]];
      num_distinct[part] = sort({first[part], first[part + 1]}, begins.data(), pairs.data(), distinct.data());
      std::uint32_t* const counts = of_server.data() + part * num_servers_;
      std::fill_n(counts, num_servers_, 0);
      if (num_servers_ == 1) {
        counts[0] = static_cast<std::uint32_t>(num_distinct[part]);
        return;
      }
      for (std::size_t i = begin; i < begin + num_distinct[part]; ++i) {
        server[i] = static_cast<std::uint16_t>(server_of(distinct[i], num_servers_));
        ++counts[server[i]];
      }
    });

    std::uint32_t start = 0;
    for (std::uint32_t s = 0; s < num_servers_; ++s) {
      out.offsets[s] = start;
      for (std::size_t part = 0; part < num_parts_; ++part) {
        start += std::exchange(of_server[part * num_servers_ + s], start);
      }
    }
    out.offsets[num_servers_] = start;
    out.grouped = Array<std::int64_t>(start);
    if (with_counts_) out.counts = Array<std::uint32_t>(start);

    Scratch<std::uint32_t> rank(n_);
    each_part([&](std::size_t part) {
      const std::size_t begin = begins[first[part]], end = begins[first[part + 1]];
      Scratch<std::uint32_t> position(num_distinct[part]);
      std::uint32_t* const free = of_server.data() + part * num_servers_;
      for (std::size_t i = 0; i < num_distinct[part]; ++i) {
        position[i] = free[num_servers_ == 1 ? 0 : server[begin + i]]++;
        out.grouped[position[i]] = distinct[begin + i];
        if (with_counts_) out.counts[position[i]] = 0;
      }
      const std::uint32_t* at = position.data() - 1;
      std::uint64_t previous = begin < end ? ~pairs[begin].key : 0;
      for (std::size_t i = begin; i < end; ++i) {
        at += pairs[i].key != previous;
        previous = pairs[i].key;
        rank[pairs[i].tag] = *at;
        if (counts_kept_) out.counts[*at] += kept_counts_[pairs[i].tag];
      }
    });

    std::int64_t* const inverse = out.inverse.data();
    each_part([&](std::size_t part) {
      const auto [begin, end] = inputs(part);
      for (std::size_t i = begin; i < end; ++i) inverse[i] = rank[static_cast<std::size_t>(inverse[i])];
    });
    if (with_counts_ && !counts_kept_) {
      for (std::size_t i = 0; i < n_; ++i) ++out.counts[static_cast<std::size_t>(inverse[i])];
    }
  }

  const std::int64_t* keys_;
  std::size_t n_;
  std::uint64_t base_, range_;
  std::uint32_t num_servers_;
  bool with_counts_;
  std::size_t num_parts_;
  bool counts_kept_;  // parts that count what they see of a key share nothing; a single one is quicker at the end
  int bucket_bits_ = 0, shift_ = 0;
  Scratch<std::uint64_t> kept_;  // those of a part from where its inputs begin
  Scratch<std::uint32_t> kept_counts_;
  Scratch<std::size_t> num_kept_;
};

}  // namespace

Route route_sort(const std::int64_t* keys, std::size_t n, Bounds bounds, std::uint32_t num_servers, bool with_counts,
                 std::size_t num_parts) {
  return Sorting(keys, n, bounds, num_servers, with_counts, num_parts).run();
}

}  // namespace fleet
