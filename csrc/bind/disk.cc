#include <nanobind/stl/string.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "bind/arrays.h"
#include "bind/buffers.h"
#include "disk/record_scan.h"
#include "disk/run.h"
#include "disk/run_check.h"
#include "disk/scan.h"

namespace fleet::bind {

namespace {

using disk::RecordScan;
using disk::RunCheck;

std::unique_ptr<RunCheck> open_run(const std::string& path) {
  WithoutGil release;
  return std::make_unique<RunCheck>(path, disk::id_in(path));
}

bool next(RunCheck& check, std::size_t bytes) {
  WithoutGil release;
  return check.next(bytes);
}

nb::object run_keys(const std::string& path) {
  std::vector<std::int64_t> keys;
  {
    WithoutGil release;
    const auto run = disk::Run::open(path, disk::id_in(path));
    keys.reserve(run->size());
    for (disk::RunReader reader(run); reader.record() != nullptr; reader.next()) {
      keys.push_back(disk::key_of(reader.record()));
    }
  }
  fleet::Array<std::int64_t> out(keys.size());
  std::copy(keys.begin(), keys.end(), out.data());
  return to_numpy(std::move(out));
}

// The same records but for some keys, in a file beside it: its name, in which its id stands.
std::string rewrite_run(const std::string& path, const std::string& folder, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  WithoutGil release;
  const std::unordered_set<std::int64_t> gone(int64s(array), int64s(array) + array.size());
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string draft = folder + "/." + name + ".again";
  const auto run = disk::Run::open(path, disk::id_in(path));
  const auto made =
      disk::merge({run}, draft, run->level(), [&](std::byte* record) { return gone.count(disk::key_of(record)) == 0; });
  if (made == nullptr) throw std::invalid_argument("no record of " + path + " would stay");
  made->sync();
  constexpr std::size_t kDigits = 16;
  char id[kDigits + 1];
  std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(made->id()));
  const std::size_t end = name.rfind('.');
  const std::size_t stem = disk::id_in(name) == 0 ? end : end - kDigits - 1;
  const std::string renamed = name.substr(0, stem) + "-" + id + name.substr(end);
  if (std::rename(draft.c_str(), (folder + "/" + renamed).c_str()) != 0) {
    throw disk::failure("cannot be renamed", draft, errno);
  }
  return renamed;
}

bool take(RecordScan& scan, nb::handle data) {
  Buffers buffers;
  const plane::Extent bytes = buffers.of(data);
  WithoutGil release;
  return scan.take(bytes.data, bytes.size);
}

}  // namespace

void add_disk(nb::module_& m) {
  nb::class_<RunCheck>(m, "RunCheck", "A sealed file of rows, read to see whether it is whole; see _native.pyi.")
      .def(nb::new_(&open_run), nb::arg("path"))
      .def("next", &next, nb::arg("num_bytes"))
      .def_prop_ro("file_bytes", &RunCheck::file_bytes)
      .def_prop_ro("done_bytes", &RunCheck::done_bytes)
      .def_prop_ro("checksum", &RunCheck::checksum);
  m.def("run_keys", &run_keys, nb::arg("path"), "The keys of a sealed file of rows.");
  m.def("rewrite_run", &rewrite_run, nb::arg("path"), nb::arg("folder"), nb::arg("keys").none(),
        "A sealed file without some keys, beside it: its name.");
  nb::class_<RecordScan>(m, "RecordScan", "Records of a journal, compared with their checksums; see _native.pyi.")
      .def(nb::init<>())
      .def("take", &take, nb::arg("data").none())
      .def_prop_ro("num_records", &RecordScan::num_records)
      .def_prop_ro("first", &RecordScan::first)
      .def_prop_ro("last", &RecordScan::last)
      .def_prop_ro("most", &RecordScan::most)
      .def_prop_ro("is_in_order", &RecordScan::is_in_order)
      .def_prop_ro("last_begin", &RecordScan::last_begin)
      .def_prop_ro("end", &RecordScan::end)
      .def_prop_ro("is_between", &RecordScan::is_between)
      .def_prop_ro("chain", &RecordScan::chain);
}

}  // namespace fleet::bind
