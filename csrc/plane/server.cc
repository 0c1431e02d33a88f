#include "plane/server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>

namespace fleet::plane {

namespace {

// What epoll tells beside the numbers of connections.
constexpr std::uint64_t kWake = 0, kUnix = 1, kTcp = 2, kFirst = 3;
constexpr int kLookMs = 100;
constexpr int kBreathMs = 10;

void watch(int epoll, int file, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;
  event.data.u64 = number;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
}

}  // namespace

Server::Server(ServerOptions options, Decide decide, Refused refused)
    : options_(std::move(options)),
      decide_(std::move(decide)),
      was_refused_(std::move(refused)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
      next_number_(kFirst),
      ahead_budget_(std::make_shared<Budget>(options_.budget->most() / 4)) {
  if (epoll_.get() < 0 || wake_.get() < 0) throw std::system_error(errno, std::generic_category(), "epoll");
  watch(epoll_.get(), wake_.get(), kWake);
  for (const std::string& name : options_.names) {
    unix_.push_back(listen_unix(name));
    watch(epoll_.get(), unix_.back().get(), kUnix);
  }
  if (!options_.address.empty()) {
    tcp_ = listen_tcp(options_.address, port_);
    watch(epoll_.get(), tcp_.get(), kTcp);
  }
}

Server::~Server() { stop(); }

void Server::stop() {
  {
    std::unique_lock<std::mutex> lock(running_mutex_);
    if (is_stopped_.exchange(true)) return;
    // Each write wakes one thread at least; those that sleep on would notice the end a tenth of a second later.
    const std::uint64_t one = 1;
    for (std::size_t i = 0; i < num_running_; ++i) {
      const auto written = write(wake_.get(), &one, sizeof one);
      static_cast<void>(written);
    }
    running_changed_.wait(lock, [&] { return num_running_ == 0; });
  }
  std::deque<std::function<void()>> work;
  {
    const std::lock_guard<std::mutex> lock(work_mutex_);
    work.swap(work_);
  }
  for (const std::function<void()>& one : work) {  // calls that were to be told why they end
    try {
      one();
    } catch (const std::exception&) {
    }
  }
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections;
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    connections.swap(connections_);
  }
  for (auto& [number, connection] : connections) connection->close();
  // What calls hold may be Python's, and is let go of without a lock.
  std::vector<std::shared_ptr<Call>> parked;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    parked.swap(parked_);
  }
  unix_.clear();
  tcp_.reset();
}

Server::Running::Running(Server& server) : server_(server) {
  const std::lock_guard<std::mutex> lock(server_.running_mutex_);
  ++server_.num_running_;
}

Server::Running::~Running() {
  const std::lock_guard<std::mutex> lock(server_.running_mutex_);
  --server_.num_running_;
  server_.running_changed_.notify_all();
}

void Server::run(std::size_t thread) {
  // Signals are for Python's main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_setname_np(pthread_self(), ("fleet-plane-" + std::to_string(thread)).c_str());
  {
    const Running running(*this);  // whatever ends it: Python ends its threads as it likes when it ends itself
    work();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Server::work() {
  while (!is_stopped_) {
    epoll_event event{};
    const int found = epoll_wait(epoll_.get(), &event, 1, kLookMs);
    if (is_stopped_) return;
    try {
      look_for_late();
      if (found > 0) on_event(event.data.u64);
    } catch (const std::exception&) {  // there is no memory for one call: the others live on
    }
  }
}

void Server::on_event(std::uint64_t number) {
  switch (number) {
    case kWake: work_off(); break;
    case kUnix:
      for (const File& one : unix_) accept_all(one.get(), true);
      break;
    case kTcp: accept_all(tcp_.get(), false); break;
    default: handle(number);
  }
}

void Server::accept_all(int listening, bool is_unix) {
  while (true) {
    File socket = accept_from(listening, is_unix);
    if (socket.get() < 0) {
      // Without a file to spare the socket stays ready, and would be asked again and again.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(kBreathMs));
      return;
    }
    std::shared_ptr<Connection> made;
    std::unique_ptr<Stream> stream = is_unix || options_.tls == nullptr
                                         ? std::make_unique<PlainStream>(std::move(socket))
                                         : options_.tls->accept(std::move(socket));
    {
      const std::lock_guard<std::mutex> lock(connections_mutex_);
      if (connections_.size() >= options_.max_connections) {
        ++refused_;
        continue;
      }
      made = std::make_shared<Connection>(next_number_++, std::move(stream), is_unix, epoll_.get(), options_.token,
                                          options_.budget, ahead_budget_, now_ms());
      connections_.emplace(made->number(), made);
    }
    if (!made->flush_and_arm()) drop(made);
  }
}

void Server::handle(std::uint64_t number) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    connection = found->second;
  }
  std::vector<std::shared_ptr<Call>> calls;
  bool is_alive = false;
  try {
    is_alive = connection->read(calls);
  } catch (const std::bad_alloc&) {  // its messages do not fit: the rest of the server lives on
  }
  // What comes next is another thread's, while this one answers.
  if (!is_alive || !connection->flush_and_arm()) drop(connection);
  for (std::shared_ptr<Call>& call : calls) take(std::move(call));
}

void Server::decide(Reason reason, std::shared_ptr<Call> call) {
  if (reason == Reason::kOther || call->method() == Method::kFollow || options_.num_kept_free == 0) {
    decide_(reason, std::move(call));
    return;
  }
  const std::size_t num = ++num_deciding_;
  decide_(num + options_.num_kept_free > num_running_ ? Reason::kOther : reason, std::move(call));
  --num_deciding_;
}

void Server::take(std::shared_ptr<Call> call) {
  try {
    std::shared_ptr<const Holdings> holdings;
    {
      const std::lock_guard<std::mutex> lock(state_mutex_);
      if (state_.is_open) holdings = state_.holdings;
      call->num_looks = state_.num_looks;
    }
    if (call->method() == Method::kMeet && call->is_message()) {
      decide(Reason::kMeet, call);
    } else if (!call->fit(holdings)) {
      decide(Reason::kOther, call);
    } else if (call->method() == Method::kPush) {
      decide(Reason::kPush, call);
    } else {
      take_pull(call);
    }
  } catch (const std::exception& error) {
    call->fail(kInternal, std::string("the request could not be answered: ") + error.what());
  }
}

void Server::take_pull(const std::shared_ptr<Call>& call) {
  const PullHeader& header = call->pull();
  bool may_come = false, has_come = false;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    const Caller& caller = header.caller;
    may_come = state_.is_open && caller.term == state_.term &&
               (caller.instance == 0 || caller.instance == state_.instance) &&
               caller.worker < state_.incarnations.size() && caller.incarnation >= state_.incarnations[caller.worker];
    has_come = state_.version >= header.version && (state_.is_started || !header.dense);
  }
  if (!may_come) {
    decide(Reason::kOther, call);
  } else if (has_come) {
    answer(call);
  } else {
    const auto wait_ms = std::min<std::uint64_t>(header.timeout_ms, options_.max_wait_ms);
    call->wait_for(header.version, now_ms() + static_cast<std::int64_t>(wait_ms));
    decide(Reason::kLook, call);  // it may be in vain
  }
}

void Server::answer(const std::shared_ptr<Call>& call) {
  call->end_wait();
  std::string header;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (call->method() == Method::kPull) {
      header = pull_reply_header(state_.version);
    } else {
      header = call->prefix + (call->asks_for_all && !is_reached(*call) ? state_.all : state_.step);
    }
  }
  answer(call, header);
}

void Server::answer(const std::shared_ptr<Call>& call, const std::string& header) {
  if (!call->wanted().empty() || call->method() == Method::kPull) {
    std::uint64_t rows = 0;
    for (const Wanted& one : call->wanted()) rows += one.n;
    ++pulls_;
    pulled_rows_ += rows;
  }
  const auto began = std::chrono::steady_clock::now();
  try {
    call->answer(header);
  } catch (const std::exception& error) {
    call->fail(kInternal, std::string("the request could not be answered: ") + error.what());
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
  answer_ns_ += static_cast<std::uint64_t>(took.count());
}

bool Server::is_reached(const Call& call) const {
  return state_.version >= call.awaited_version() && (state_.is_started || !call.wants_dense());
}

bool Server::has_come(const Call& call) const {
  if (call.record > state_.copied) return false;
  if (is_reached(call)) return true;
  return call.asks_for_all && state_.collected >= call.awaited_version() && state_.collected_record <= state_.copied;
}

bool Server::is_open_for(const Call& call) const {
  return state_.is_open || call.method() == Method::kMeet || call.method() == Method::kFollow;
}

void Server::park(std::shared_ptr<Call> call, std::uint64_t version, std::uint64_t timeout_ms) {
  call->wait_for(version, now_ms() + static_cast<std::int64_t>(timeout_ms));
  park(std::move(call));
}

void Server::park(std::shared_ptr<Call> call, std::uint64_t timeout_ms) {
  park(std::move(call), std::numeric_limits<std::uint64_t>::max(), timeout_ms);
}

void Server::park(std::shared_ptr<Call> call) {
  if (call->is_over()) return;
  bool is_there = false;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    const std::lock_guard<std::mutex> state(state_mutex_);
    // Who was to be looked at, and was not here yet, is looked at now.
    const bool may_wait = is_open_for(*call) && call->num_looks == state_.num_looks;
    call->num_looks = state_.num_looks;
    is_there = may_wait && has_come(*call);
    if (may_wait && !is_there) {
      call->begin_wait();
      call->give_room_back();
      parked_.push_back(std::move(call));
      return;
    }
  }
  if (is_there) {
    answer(call);
  } else {
    later([this, call] { decide(Reason::kLook, call); });
  }
}

void Server::serve(std::shared_ptr<const Holdings> holdings, std::uint64_t instance,
                   std::vector<std::uint64_t> incarnations) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  state_.holdings = std::move(holdings);
  state_.instance = instance;
  state_.incarnations = std::move(incarnations);
}

void Server::set_incarnation(std::size_t worker, std::uint64_t incarnation) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (worker < state_.incarnations.size()) state_.incarnations[worker] = incarnation;
}

void Server::set_term(std::uint64_t term) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  state_.term = term;
}

void Server::publish(std::uint64_t version, bool is_open, bool is_started, const std::string& step, std::int64_t look) {
  std::vector<std::shared_ptr<Call>> ready, others, over;  // which may be Python's, and are let go of without a lock
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    const std::lock_guard<std::mutex> state(state_mutex_);
    state_.version = version;
    state_.is_open = is_open;
    state_.is_started = is_started;
    state_.step = step;
    if (look != kNobody) ++state_.num_looks;
    std::vector<std::shared_ptr<Call>> stay;
    for (std::shared_ptr<Call>& one : parked_) {
      const bool is_looked_at = look == kEverybody || look == static_cast<std::int64_t>(one->caller().worker);
      std::vector<std::shared_ptr<Call>>& to = one->is_over()                       ? over
                                               : !is_open_for(*one) || is_looked_at ? others
                                               : has_come(*one)                     ? ready
                                                                                    : stay;
      one->num_looks = state_.num_looks;
      to.push_back(std::move(one));
    }
    parked_.swap(stay);
  }
  const auto round = std::make_shared<Round>();
  round->began = std::chrono::steady_clock::now();
  round->left = ready.size();
  for (std::shared_ptr<Call>& one : ready) {
    later([this, round, call = std::move(one)] {
      answer(call);
      end(*round);
    });
  }
  for (std::shared_ptr<Call>& one : others) {
    later([this, call = std::move(one)] { decide(Reason::kLook, call); });
  }
}

void Server::collected(std::uint64_t version, std::uint64_t record, const std::string& all) {
  const std::lock_guard<std::mutex> lock(parked_mutex_);
  const std::lock_guard<std::mutex> state(state_mutex_);
  state_.collected = version;
  state_.collected_record = record;
  state_.all = all;
  answer_ready();
}

void Server::copied(std::uint64_t record) {
  const std::lock_guard<std::mutex> lock(parked_mutex_);
  const std::lock_guard<std::mutex> state(state_mutex_);
  state_.copied = record;
  answer_ready();
}

void Server::answer_ready() {
  const auto ready = std::stable_partition(parked_.begin(), parked_.end(),
                                           [this](const auto& one) { return !is_open_for(*one) || !has_come(*one); });
  for (auto one = ready; one != parked_.end(); ++one) {
    later([this, call = std::move(*one)] { answer(call); });
  }
  parked_.erase(ready, parked_.end());
}

void Server::end(Round& round) {
  if (--round.left != 0) return;
  const auto took = std::chrono::steady_clock::now() - round.began;
  ++rounds_;
  answering_us_ += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

void Server::later(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(work_mutex_);
    work_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) return;  // it is full: the threads are awake
}

void Server::work_off() {
  std::uint64_t one = 0;
  if (read(wake_.get(), &one, sizeof one) < 0) return;
  std::function<void()> work;
  {
    const std::lock_guard<std::mutex> lock(work_mutex_);
    if (work_.empty()) return;
    work = std::move(work_.front());
    work_.pop_front();
  }
  work();
}

void Server::look_for_late() {
  const std::int64_t now = now_ms();
  std::int64_t before = looked_at_ms_;
  if (now - before < kLookMs || !looked_at_ms_.compare_exchange_strong(before, now)) return;
  std::vector<std::shared_ptr<Call>> late, gone;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    std::vector<std::shared_ptr<Call>> stay;
    for (std::shared_ptr<Call>& one : parked_) {
      (one->is_over() ? gone : one->deadline_ms() <= now ? late : stay).push_back(std::move(one));
    }
    parked_.swap(stay);
  }
  for (std::shared_ptr<Call>& one : late) decide(Reason::kLate, std::move(one));
  std::vector<std::shared_ptr<Connection>> strangers;
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    for (const auto& [number, connection] : connections_) {
      const bool is_stranger = !connection->is_welcome() && now - connection->since_ms() > options_.hello_ms;
      // Whoever is stopped in the middle of a message keeps what others need.
      const std::int64_t since = connection->waits_since_ms();
      if (is_stranger || (since < now && now - since > options_.silence_ms)) strangers.push_back(connection);
      const std::int64_t ahead = connection->ahead_since_ms();
      if (ahead < now && now - ahead > options_.ahead_ms) connection->drop_ahead();
    }
  }
  for (const std::shared_ptr<Connection>& one : strangers) drop(one);
}

void Server::drop(const std::shared_ptr<Connection>& connection) {
  const char* why = connection->refusal();
  const std::string who = why == nullptr ? "" : connection->peer();
  connection->close();
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    if (connections_.erase(connection->number()) == 0) return;
    if (!connection->is_welcome()) ++refused_;
  }
  if (why != nullptr) was_refused_(who, why);
}

Server::Counts Server::counts() const {
  const std::lock_guard<std::mutex> lock(connections_mutex_);
  std::uint64_t num_tls = 0;
  for (const auto& [number, one] : connections_) {
    if (options_.tls != nullptr && !one->is_unix() && one->is_welcome()) ++num_tls;
  }
  const std::uint64_t num = connections_.size(), ahead = ahead_budget_->held();
  return {pulls_, pulled_rows_, num, num_tls, refused_, ahead, rounds_, answering_us_, answer_ns_};
}

}  // namespace fleet::plane
