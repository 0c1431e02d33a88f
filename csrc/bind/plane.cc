#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <tuple>

#include "bind/buffers.h"
#include "plane/client.h"
#include "plane/server.h"

namespace fleet::bind {

namespace {

using namespace fleet::plane;

std::string as_string(const nb::bytes& bytes) { return std::string(bytes.c_str(), bytes.size()); }
nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// A view of some bytes as numbers, which keeps the memory that they lie in.
template <class T>
nb::object view_of(const Extent& extent, const std::shared_ptr<Memory>& memory) {
  auto* kept = new std::shared_ptr<Memory>(memory);
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::shared_ptr<Memory>*>(data); });
  const auto* data = reinterpret_cast<const T*>(extent.data);
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {extent.size / sizeof(T)}, owner));
}

// Client.

[[noreturn]] void os_error(const std::system_error& error) {
  PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.code().message()).ptr());
  throw nb::python_error();
}

template <class Connect>
std::shared_ptr<Client> connect(Connect&& make) {
  try {
    WithoutGil release;
    return make();
  } catch (const std::system_error& error) {
    os_error(error);
  }
}

std::shared_ptr<Client> to_unix(const std::string& name, const nb::bytes& token, double timeout_s, bool use_blocks) {
  const std::string text = as_string(token);
  return connect([&] { return Client::to_unix(name, text, static_cast<int>(timeout_s * 1000), use_blocks); });
}

std::shared_ptr<Client> to_tcp(const std::string& address, std::uint16_t port, const nb::bytes& token,
                               double timeout_s) {
  const std::string text = as_string(token);
  return connect([&] { return Client::to_tcp(address, port, text, static_cast<int>(timeout_s * 1000)); });
}

std::shared_ptr<Tls> make_tls(const std::vector<std::string>& libraries, const nb::bytes& certificate,
                              const nb::bytes& key, const nb::bytes& authority) {
  return Tls::make(libraries, as_string(certificate), as_string(key), as_string(authority));
}

std::shared_ptr<Client> to_tls(const std::string& address, std::uint16_t port, const std::shared_ptr<Tls>& tls,
                               const std::string& name, const nb::bytes& token, double timeout_s) {
  const std::string text = as_string(token);
  return connect([&] { return Client::to_tls(address, port, *tls, name, text, static_cast<int>(timeout_s * 1000)); });
}

using Claims = std::vector<std::tuple<std::size_t, std::size_t, std::uint64_t>>;

std::shared_ptr<Answer> call(Client& client, int method, const nb::bytes& header, nb::sequence tensors,
                             std::size_t room, const Claims& ahead) {
  Buffers buffers;
  std::vector<std::vector<Extent>> extents;
  for (nb::handle tensor : tensors) {
    extents.emplace_back();
    if (nb::isinstance<nb::tuple>(tensor)) {
      for (nb::handle piece : nb::borrow<nb::tuple>(tensor)) extents.back().push_back(buffers.of(piece));
    } else {
      extents.back().push_back(buffers.of(tensor));
    }
  }
  const std::string text = as_string(header);
  std::vector<Claim> claims;
  for (const auto& [tensor, begin, number] : ahead) claims.push_back({tensor, begin, number});
  std::shared_ptr<Answer> answer;
  try {
    WithoutGil release;
    answer = client.call(static_cast<Method>(method), text, extents, room, claims);
  } catch (const std::system_error& error) {
    os_error(error);
  }
  return answer;
}

std::uint64_t send_ahead(Client& client, nb::sequence pieces) {
  Buffers buffers;
  std::vector<Extent> extents;
  for (nb::handle piece : pieces) extents.push_back(buffers.of(piece));
  WithoutGil release;
  return client.ahead(extents);
}

bool wait(const Answer& answer, double timeout_s) {
  const double most = 1e9;
  WithoutGil release;
  return answer.wait(static_cast<std::int64_t>(std::min(timeout_s, most) * 1000));
}

nb::list answer_tensors(const Answer& answer) {
  nb::list found;
  for (const Extent& tensor : answer.tensors()) {
    const bool is_floats = tensor.size % sizeof(float) == 0;  // other formats are read as bytes, whatever this says
    found.append(is_floats ? view_of<float>(tensor, answer.memory()) : view_of<std::uint8_t>(tensor, answer.memory()));
  }
  return found;
}

// Server.

constexpr const char* kNames[kNumMethods] = {"Pull", "Push", "Meet", "Follow"};

Extent whole(const Call& call) { return {call.memory()->data(), call.size()}; }

nb::list call_tensors(const Call& call) {
  nb::list found;
  for (const Extent& tensor : call.message().tensors) found.append(view_of<std::uint8_t>(tensor, call.memory()));
  return found;
}

void reply(Call& call, const nb::bytes& header, nb::sequence tensors) {
  Buffers buffers;
  std::vector<Extent> extents;
  for (nb::handle tensor : tensors) extents.push_back(buffers.of(tensor));
  const std::string text = as_string(header);
  WithoutGil release;
  call.reply(text, extents);
}

// A server and what it asks; who lets go of it must not hold the GIL while threads that want it end.
class Serving {
 public:
  Serving(ServerOptions options, nb::object decide, nb::object refused)
      : decide_(std::move(decide)), refused_(std::move(refused)) {
    server_ = std::make_unique<Server>(
        std::move(options),
        [this](Reason reason, std::shared_ptr<Call> call) { ask(decide_, static_cast<int>(reason), std::move(call)); },
        [this](const std::string& peer, const std::string& why) { ask(refused_, peer, why); });
  }
  ~Serving() { stop(); }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  void stop() {
    {
      WithoutGil release;
      server_->stop();
    }
    decide_ = refused_ = nb::none();  // which hold this in turn, where no garbage collector sees it
  }
  Server& operator*() const { return *server_; }

 private:
  template <class... Args>
  static void ask(const nb::object& whom, Args&&... args) {
    WithGil acquire;
    try {
      whom(std::forward<Args>(args)...);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("fleet._native.PlaneServer");
    }
  }

  nb::object decide_, refused_;
  std::unique_ptr<Server> server_;
};

std::unique_ptr<Serving> serve(const std::vector<std::string>& names, const std::string& address,
                               const nb::bytes& token, std::size_t max_connections, std::shared_ptr<Budget> budget,
                               double max_wait_s, nb::object decide, nb::object refused, double hello_s,
                               double silence_s, std::shared_ptr<Tls> tls, std::size_t num_kept_free) {
  ServerOptions options{names, address, std::move(tls), as_string(token), max_connections, std::move(budget)};
  options.num_kept_free = num_kept_free;
  options.max_wait_ms = static_cast<std::uint64_t>(max_wait_s * 1000);
  options.hello_ms = static_cast<std::int64_t>(hello_s * 1000);
  options.silence_ms = options.ahead_ms = static_cast<std::int64_t>(silence_s * 1000);
  try {
    return std::make_unique<Serving>(std::move(options), std::move(decide), std::move(refused));
  } catch (const std::system_error& error) {
    os_error(error);
  }
}

}  // namespace

void add_plane(nb::module_& m) {
  nb::class_<Answer>(m, "PlaneAnswer", "What became of a call; see _native.pyi.")
      .def("wait", &wait, nb::arg("timeout_s"))
      .def_prop_ro("state", [](const Answer& one) { return static_cast<int>(one.state()); })
      .def_prop_ro("header", [](const Answer& one) { return as_bytes(one.header()); })
      .def_prop_ro("tensors", &answer_tensors)
      .def_prop_ro("joined_bytes", &Answer::joined_bytes)
      .def_prop_ro("sent_ns", &Answer::sent_ns)
      .def_prop_ro("came_ns", &Answer::came_ns)
      .def_prop_ro("code", &Answer::code)
      .def_prop_ro("text", &Answer::text);
  nb::class_<Tls>(m, "PlaneTls", "What a process shows and asks for; see _native.pyi.")
      .def(nb::new_(&make_tls), nb::arg("libraries"), nb::arg("certificate"), nb::arg("key"), nb::arg("authority"))
      .def_prop_ro("library", &Tls::library);
  nb::class_<Client>(m, "PlaneClient", "A connection to a server; see _native.pyi.")
      .def_static("unix", &to_unix, nb::arg("name"), nb::arg("token"), nb::arg("timeout_s"), nb::arg("use_blocks"))
      .def_static("tcp", &to_tcp, nb::arg("address"), nb::arg("port"), nb::arg("token"), nb::arg("timeout_s"))
      .def_static("tls", &to_tls, nb::arg("address"), nb::arg("port"), nb::arg("tls"), nb::arg("name"),
                  nb::arg("token"), nb::arg("timeout_s"))
      .def("call", &call, nb::arg("method"), nb::arg("header"), nb::arg("tensors"), nb::arg("room"),
           nb::arg("ahead") = Claims{})
      .def("send_ahead", &send_ahead, nb::arg("pieces"))
      .def("forget_ahead", &Client::forget, nb::arg("number"), nb::call_guard<WithoutGil>())
      .def(
          "close", [](Client& client) { client.close(); }, nb::call_guard<WithoutGil>())
      .def_prop_ro("is_open", &Client::is_open);

  nb::class_<Budget>(m, "Budget", "The room for large messages under way; see _native.pyi.")
      .def(nb::init<std::size_t>(), nb::arg("most"))
      .def("hold", &Budget::hold, nb::arg("bytes"), nb::arg("own") = 0)
      .def("let_go", &Budget::let_go, nb::arg("bytes"))
      .def_prop_ro("held", &Budget::held);

  nb::class_<Call>(m, "PlaneCall", "A request to a server; see _native.pyi.")
      .def_prop_ro("method", [](const Call& one) { return kNames[static_cast<std::size_t>(one.method()) - 1]; })
      .def_prop_ro("is_gone", &Call::is_gone)
      .def_prop_ro("data", [](const Call& one) { return view_of<std::uint8_t>(whole(one), one.memory()); })
      .def_prop_ro("header", [](const Call& one) { return as_bytes(one.message().header); })
      .def_prop_ro("tensors", &call_tensors)
      .def_prop_ro("awaited_version", &Call::awaited_version)
      .def_prop_ro("note", [](const Call& one) { return one.note; })
      .def_prop_ro("push", &Call::gradients, nb::rv_policy::reference_internal)
      .def("keep", &Call::keep, nb::call_guard<WithoutGil>())
      .def("hand_room_over", &Call::hand_room_over)
      .def("reply", &reply, nb::arg("header"), nb::arg("tensors"))
      .def("fail", &Call::fail, nb::arg("code"), nb::arg("text"));
  nb::class_<Serving>(m, "PlaneServer", "A server's side of the data plane; see _native.pyi.")
      .def(nb::new_(&serve), nb::arg("names"), nb::arg("address"), nb::arg("token"), nb::arg("max_connections"),
           nb::arg("budget"), nb::arg("max_wait_s"), nb::arg("decide"), nb::arg("refused"), nb::arg("hello_s") = 10.0,
           nb::arg("silence_s") = 60.0, nb::arg("tls").none() = nb::none(), nb::arg("num_kept_free") = 0)
      .def(
          "run", [](Serving& one, std::size_t thread) { (*one).run(thread); }, nb::arg("thread"),
          nb::call_guard<WithoutGil>())
      .def("stop", &Serving::stop)
      .def_prop_ro("port", [](const Serving& one) { return (*one).port(); })
      .def(
          "serve",
          [](Serving& one, nb::object holdings, std::uint64_t instance, std::vector<std::uint64_t> incarnations) {
            auto shared = holdings.is_none() ? nullptr : nb::cast<std::shared_ptr<Holdings>>(holdings);
            (*one).serve(std::move(shared), instance, std::move(incarnations));
          },
          nb::arg("holdings").none(), nb::arg("instance"), nb::arg("incarnations"))
      .def(
          "set_incarnation",
          [](Serving& one, std::size_t worker, std::uint64_t incarnation) {
            (*one).set_incarnation(worker, incarnation);
          },
          nb::arg("worker"), nb::arg("incarnation"))
      .def(
          "set_term", [](Serving& one, std::uint64_t term) { (*one).set_term(term); }, nb::arg("term"))
      .def(
          "publish",
          [](Serving& one, std::uint64_t version, bool is_open, bool is_started, const nb::bytes& step,
             std::int64_t look) { (*one).publish(version, is_open, is_started, as_string(step), look); },
          nb::arg("version"), nb::arg("is_open"), nb::arg("is_started"), nb::arg("step"), nb::arg("look"))
      .def(
          "park",
          [](Serving& one, std::shared_ptr<Call> call, std::uint64_t version, std::uint64_t timeout_ms,
             const nb::bytes& prefix, std::uint64_t note, std::uint64_t record, bool asks_for_all) {
            call->prefix = as_string(prefix);
            call->note = note;
            call->record = record;
            call->asks_for_all = asks_for_all;
            WithoutGil release;
            (*one).park(std::move(call), version, timeout_ms);
          },
          nb::arg("call"), nb::arg("version"), nb::arg("timeout_ms"), nb::arg("prefix"), nb::arg("note"),
          nb::arg("record") = 0, nb::arg("asks_for_all") = false)
      .def(
          "collected",
          [](Serving& one, std::uint64_t version, std::uint64_t record, const nb::bytes& all) {
            (*one).collected(version, record, as_string(all));
          },
          nb::arg("version"), nb::arg("record"), nb::arg("all"))
      .def(
          "copied", [](Serving& one, std::uint64_t record) { (*one).copied(record); }, nb::arg("record"))
      .def(
          "park_until_told",
          [](Serving& one, std::shared_ptr<Call> call, std::uint64_t timeout_ms, std::uint64_t note) {
            call->note = note;
            WithoutGil release;
            (*one).park(std::move(call), timeout_ms);
          },
          nb::arg("call"), nb::arg("timeout_ms"), nb::arg("note"))
      .def(
          "answer",
          [](Serving& one, std::shared_ptr<Call> call, const nb::bytes& header) {
            const std::string text = as_string(header);
            WithoutGil release;
            (*one).answer(call, text);
          },
          nb::arg("call"), nb::arg("header"))
      .def(
          "park_again",
          [](Serving& one, std::shared_ptr<Call> call) {
            WithoutGil release;
            (*one).park(std::move(call));
          },
          nb::arg("call"))
      .def("counts", [](const Serving& one) {
        const Server::Counts counts = (*one).counts();
        nb::dict found;
        found["pulls"] = counts.pulls;
        found["pulled_rows"] = counts.pulled_rows;
        found["connections"] = counts.connections;
        found["tls_connections"] = counts.tls_connections;
        found["refused"] = counts.refused;
        found["ahead_bytes"] = counts.ahead_bytes;
        found["rounds"] = counts.rounds;
        found["answering_us"] = counts.answering_us;
        found["answer_ns"] = counts.answer_ns;
        return found;
      });
}

}  // namespace fleet::bind
