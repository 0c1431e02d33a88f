// Requests whose bytes Python has, from gRPC, a worker in the same process or a journal, read as those of the data
// plane.
#include "plane/reader.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <tuple>

#include "bind/buffers.h"
#include "trace/ring.h"

namespace fleet::bind {

namespace {

using namespace fleet::plane;

using ReadTables = std::vector<std::tuple<std::size_t, bool>>;
using ReadGroups = std::vector<std::tuple<std::vector<std::tuple<std::uint32_t, std::size_t>>, bool>>;

Reader make_reader(const ReadTables& tables, const ReadGroups& groups, std::size_t num_parameters, bool takes_deltas,
                   bool takes_passes) {
  Reader::Job job;
  for (const auto& [width, reads_zeros] : tables) job.tables.push_back({width, reads_zeros});
  for (const auto& [parts, is_exact] : groups) {
    Reader::Group group{0, is_exact, {}};
    for (const auto& [parameter, size] : parts) {
      group.size += size;
      group.parameters.push_back(parameter);
    }
    job.groups.push_back(std::move(group));
  }
  job.num_parameters = num_parameters;
  job.takes_deltas = takes_deltas;
  job.takes_passes = takes_passes;
  return Reader(std::move(job));
}

// A header of a request and its tensors.
template <class Header>
bool take(const nb::bytes& bytes, nb::sequence tensors, Buffers& buffers, Header& header, std::vector<Extent>& extents,
          Refusal& why) {
  for (nb::handle tensor : tensors) extents.push_back(buffers.aligned(tensor));
  why.what = "header";
  return read_header(std::string(bytes.c_str(), bytes.size()), header);
}

nb::object read_push(const Reader& reader, const nb::bytes& bytes, nb::sequence tensors) {
  auto buffers = std::make_shared<Buffers>();
  PushHeader header;
  std::vector<Extent> extents;
  Refusal why;
  Gradients made;
  if (!take(bytes, tensors, *buffers, header, extents, why) || !reader.read(header, extents, made, why)) {
    return nb::cast(why);
  }
  made.is_traced = header.caller.is_traced && trace::is_on();
  made.owner = std::move(buffers);
  return nb::cast(std::move(made));
}

nb::tuple message_parts(const nb::bytes& data) {
  Message message;
  std::string why;
  const auto* const begin = reinterpret_cast<const std::byte*>(data.c_str());
  if (!plane::read_message(begin, data.size(), message, &why)) value_error(why);
  nb::list extents;
  for (const Extent& one : message.tensors) {
    extents.append(nb::make_tuple(one.data - begin, one.data - begin + static_cast<std::ptrdiff_t>(one.size)));
  }
  return nb::make_tuple(nb::bytes(message.header.data(), message.header.size()), extents);
}

template <class T>
nb::object view_of(const T* items, std::size_t n, nb::handle owner) {
  if (items == nullptr) return nb::none();
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(items, {n}, owner));
}

nb::list wanted_of(const std::vector<Wanted>& wanted, nb::handle owner) {
  nb::list found;
  for (const Wanted& one : wanted) {
    const bool reads_zeros = one.missing == fleet::Table::Missing::kZeros;
    found.append(nb::make_tuple(one.table, view_of(one.keys, one.n, owner), reads_zeros, static_cast<int>(one.format)));
  }
  return found;
}

nb::object read_pull(const Reader& reader, const nb::bytes& bytes, nb::sequence tensors) {
  auto* buffers = new Buffers;
  const nb::capsule owner(buffers, [](void* data) noexcept { delete static_cast<Buffers*>(data); });
  PullHeader header;
  std::vector<Extent> extents;
  std::vector<Wanted> wanted;
  Refusal why;
  if (!take(bytes, tensors, *buffers, header, extents, why) || !reader.read(header, extents, wanted, why)) {
    return nb::cast(why);
  }
  return wanted_of(wanted, owner);
}

Gradients& push_of(nb::handle self) { return *nb::inst_ptr<Gradients>(self); }

nb::list push_keys(nb::handle self) {
  nb::list found;
  for (const Gradients::Part& part : push_of(self).parts) {
    found.append(nb::make_tuple(part.table, view_of(part.keys, part.n, self)));
  }
  return found;
}

nb::list push_tables(nb::handle self) {
  nb::list found;
  for (const Gradients::Part& part : push_of(self).parts) {
    const nb::ndarray<nb::numpy, const float, nb::ndim<2>> grads(part.grads.values(), {part.n, part.width}, self);
    found.append(nb::make_tuple(part.table, part.lr, view_of(part.keys, part.n, self), grads,
                                view_of(part.counts, part.n, self), view_of(part.shows, part.n, self),
                                view_of(part.clicks, part.n, self)));
  }
  return found;
}

nb::list push_dense(nb::handle self) {
  nb::list found;
  for (const Gradients::Group& one : push_of(self).dense) {
    found.append(nb::make_tuple(one.group, one.lr, view_of(one.grads.values(), one.grads.size(), self)));
  }
  return found;
}

nb::tuple push_groups(const Gradients& push) {
  nb::list found;
  for (const Gradients::Group& one : push.dense) found.append(one.group);
  return nb::tuple(found);
}

}  // namespace

Extent Buffers::aligned(nb::handle object) {
  static constexpr std::size_t kAlignment = 8;
  alignas(kAlignment) static const std::byte nothing[kAlignment] = {};
  const Extent found = of(object);
  if (found.size == 0) return {nothing, 0};
  if (reinterpret_cast<std::uintptr_t>(found.data) % kAlignment == 0) return found;
  copies_.push_back(Memory::of(found.size));
  std::memcpy(copies_.back()->data(), found.data, found.size);
  return {copies_.back()->data(), found.size};
}

void add_reader(nb::module_& m) {
  m.def("read_message", &message_parts, nb::arg("data"), "The header of a message, and where its tensors are.");
  nb::class_<Refusal>(m, "PlaneRefusal", "What does not fit about a request; see _native.pyi.")
      .def_prop_ro("what", [](const Refusal& one) { return one.what; })
      .def_ro("place", &Refusal::place)
      .def_ro("given", &Refusal::given)
      .def_ro("wanted", &Refusal::wanted)
      .def_ro("width", &Refusal::width)
      .def_prop_ro("format", [](const Refusal& one) { return static_cast<int>(one.format); })
      .def_ro("rate", &Refusal::rate);
  nb::class_<Gradients>(m, "PlanePush", "A push that was read; see _native.pyi.")
      .def_prop_ro("num_rows", [](const Gradients& one) { return one.num_rows; })
      .def_prop_ro("decoded_bytes", &Gradients::decoded_bytes)
      .def_prop_ro("groups", &push_groups)
      .def_prop_ro("keys", &push_keys)
      .def_prop_ro("tables", &push_tables)
      .def_prop_ro("dense", &push_dense)
      .def_prop_ro("pulls", [](nb::handle self) { return wanted_of(push_of(self).pulls, self); });
  nb::class_<Reader>(m, "PlaneReader", "How requests must look in a job; see _native.pyi.")
      .def(nb::new_(&make_reader), nb::arg("tables"), nb::arg("groups"), nb::arg("num_parameters"),
           nb::arg("takes_deltas"), nb::arg("takes_passes"))
      .def("read_push", &read_push, nb::arg("header"), nb::arg("tensors"))
      .def("read_pull", &read_pull, nb::arg("header"), nb::arg("tensors"));
}

}  // namespace fleet::bind
