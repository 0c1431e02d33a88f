#include <algorithm>
#include <limits>
#include <vector>

#include "bind/arrays.h"
#include "cache/row_cache.h"

namespace fleet::bind {

namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

// Steps are counted modulo 2^32: only their differences matter.
std::uint32_t as_now(nb::handle now) {
  return static_cast<std::uint32_t>(as_integer(now, "now", 0, std::numeric_limits<std::uint64_t>::max()));
}

// Of grouped keys those that servers have to be asked for, where they are among all, where each server's end, and the
// least version of the others.
nb::tuple take(RowCache& cache, nb::handle keys, nb::handle offsets, nb::handle now, nb::handle out) {
  const AnyArray array = as_int64(keys, "keys"), end_array = as_int64(offsets, "offsets");
  const AnyArray out_array = as_array(out, "out");
  items<float>(out_array, out, "out", {array.size(), cache.width()});
  auto* data = static_cast<float*>(writable(out, "out", out_array));
  const std::int64_t *all = int64s(array), *ends = int64s(end_array);
  const std::uint32_t step = as_now(now);
  fleet::Array<std::int64_t> found, positions, found_ends(end_array.size());
  RowCache::Taken taken;
  {
    WithoutGil release;
    taken = cache.take(all, array.size(), step, data);
    const auto& at = taken.missing;
    found = fleet::Array<std::int64_t>(at.size());
    positions = fleet::Array<std::int64_t>(at.size());
    std::copy(at.begin(), at.end(), positions.data());
    std::transform(at.begin(), at.end(), found.data(), [&](std::int64_t i) { return all[i]; });
    for (std::size_t s = 0; s < end_array.size(); ++s)
      found_ends[s] = std::lower_bound(at.begin(), at.end(), ends[s]) - at.begin();
  }
  return nb::make_tuple(to_numpy(std::move(found)), to_numpy(std::move(positions)), to_numpy(std::move(found_ends)),
                        taken.version);
}

void put(RowCache& cache, nb::handle keys, nb::handle rows, nb::handle now, nb::handle version) {
  const AnyArray array = as_int64(keys, "keys"), row_array = as_array(rows, "rows");
  const float* data = items<float>(row_array, rows, "rows", {array.size(), cache.width()});
  const std::uint64_t number = as_integer(version, "version", 0, std::numeric_limits<std::uint64_t>::max());
  const std::uint32_t step = as_now(now);
  WithoutGil release;
  cache.put(int64s(array), array.size(), data, step, number);
}

nb::dict counts(const RowCache& cache) {
  const CacheCounts& found = cache.counts();
  nb::dict result;
  result["hits"] = found.hits;
  result["misses"] = found.misses;
  result["refreshed"] = found.refreshed;
  result["evicted"] = found.evicted;
  result["age_steps"] = found.age_steps;
  result["oldest"] = found.oldest;
  return result;
}

}  // namespace

void add_cache(nb::module_& m) {
  nb::class_<RowCache>(m, "RowCache", "Rows that a worker keeps for a few steps; see _native.pyi.")
      .def(nb::new_([](nb::handle width, nb::handle capacity, nb::handle staleness) {
             return new RowCache(as_integer(width, "width", 1, 1u << 24),
                                 as_integer(capacity, "capacity", 0, kMost - 1),
                                 static_cast<std::uint32_t>(as_integer(staleness, "staleness", 0, kMost / 2)));
           }),
           nb::arg("width").none(), nb::arg("capacity").none(), nb::arg("staleness").none())
      .def("take", &take, nb::arg("keys").none(), nb::arg("offsets").none(), nb::arg("now").none(),
           nb::arg("out").none())
      .def("put", &put, nb::arg("keys").none(), nb::arg("rows").none(), nb::arg("now").none(),
           nb::arg("version").none())
      .def("counts", &counts)
      .def("clear", &RowCache::clear)
      .def("__len__", &RowCache::size);
}

}  // namespace fleet::bind
