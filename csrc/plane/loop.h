// The thread that reads what servers answer: one in a process, as long as there is a connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "plane/socket.h"

namespace fleet::plane {

class Client;

class Loop {
 public:
  // That of this process; the first who asks starts it, and it ends with the last who holds it.
  static std::shared_ptr<Loop> shared();
  ~Loop();

  void add(const std::shared_ptr<Client>& client, int socket);
  // Has epoll tell of what comes on a socket and, if `writes`, of room to write.
  void arm(int socket, bool writes);
  void remove(int socket);

 private:
  // What the thread works with; it outlives the loop where the last connection goes inside the thread itself.
  struct Shared {
    File epoll, wake;
    std::atomic<bool> is_stopped{false};
    std::mutex mutex;
    std::unordered_map<int, std::weak_ptr<Client>> clients;
  };

  Loop();
  static void run(std::shared_ptr<Shared> shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace fleet::plane
