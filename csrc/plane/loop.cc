#include "plane/loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "plane/client.h"

namespace fleet::plane {

std::shared_ptr<Loop> Loop::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Loop> known;
  static pid_t owner = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Loop> found = owner == getpid() ? known.lock() : nullptr;  // threads do not survive a fork
  if (found == nullptr) {
    found = std::shared_ptr<Loop>(new Loop());
    known = found;
    owner = getpid();
  }
  return found;
}

Loop::Loop() : shared_(std::make_shared<Shared>()) {
  shared_->epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  shared_->wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (shared_->epoll.get() < 0 || shared_->wake.get() < 0) {
    throw std::system_error(errno, std::generic_category(), "epoll");
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = shared_->wake.get();
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_ADD, shared_->wake.get(), &event);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(&Loop::run, shared_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Loop::~Loop() {
  shared_->is_stopped = true;
  const std::uint64_t one = 1;
  const auto written = write(shared_->wake.get(), &one, sizeof one);
  static_cast<void>(written);
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Loop::add(const std::shared_ptr<Client>& client, int socket) {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->clients[socket] = client;
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = socket;
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_ADD, socket, &event);
}

void Loop::arm(int socket, bool writes) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | (writes ? EPOLLOUT : 0u);
  event.data.fd = socket;
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_MOD, socket, &event);
}

void Loop::remove(int socket) {
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_DEL, socket, nullptr);
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->clients.erase(socket);
}

void Loop::run(std::shared_ptr<Shared> shared) {
  pthread_setname_np(pthread_self(), "fleet-answers");
  const int epoll = shared->epoll.get();
  std::vector<epoll_event> events(64);
  while (!shared->is_stopped) {
    const int found = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < found; ++i) {
      if (shared->is_stopped) return;
      std::shared_ptr<Client> client;
      {
        const std::lock_guard<std::mutex> lock(shared->mutex);
        const auto known = shared->clients.find(events[static_cast<std::size_t>(i)].data.fd);
        if (known != shared->clients.end()) client = known->second.lock();
      }
      if (client == nullptr) continue;
      bool is_alive = false;
      try {
        is_alive = client->on_event(events[static_cast<std::size_t>(i)].events);
      } catch (const std::exception&) {  // there is no memory for its answer: whoever waits is told
      }
      if (!is_alive) client->close("the connection was lost");
    }
  }
}

}  // namespace fleet::plane
