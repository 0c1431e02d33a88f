#include <nanobind/stl/string.h>

#include <memory>

#include "bind/buffers.h"
#include "disk/record_scan.h"
#include "disk/run_check.h"

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
