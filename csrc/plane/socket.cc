#include "plane/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

namespace fleet::plane {

namespace {

// A peer that lost its power says nothing: noticed after about this long, as fleet.ps.wire.keepalive does for gRPC.
constexpr int kSilent = 20;
constexpr int kBuffer = 4 << 20;
constexpr std::size_t kMaxFiles = 4;

[[noreturn]] void refused(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

socklen_t named(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) refused("the name of a socket", ENAMETOOLONG);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

socklen_t resolved(const std::string& address, std::uint16_t port, sockaddr_storage& out) {
  out = {};
  auto* four = reinterpret_cast<sockaddr_in*>(&out);
  auto* six = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    return sizeof *four;
  }
  if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    return sizeof *six;
  }
  refused("an address", EINVAL);
}

File open_socket(int family) {
  File socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) refused("socket");
  return socket;
}

void set(int socket, int level, int option, int value) { setsockopt(socket, level, option, &value, sizeof value); }

void tune_tcp(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilent / 2);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kSilent / 4);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kSilent);
}

void tune_unix(int socket) {
  set(socket, SOL_SOCKET, SO_SNDBUF, kBuffer);
  set(socket, SOL_SOCKET, SO_RCVBUF, kBuffer);
}

bool is_friend(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

}  // namespace

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int File::release() {
  const int number = number_;
  number_ = -1;
  return number;
}

void File::reset(int number) {
  if (number_ >= 0) close(number_);
  number_ = number;
}

File listen_unix(const std::string& name) {
  File socket = open_socket(AF_UNIX);
  sockaddr_un address;
  const socklen_t size = named(name, address);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) refused("bind");
  if (listen(socket.get(), SOMAXCONN) != 0) refused("listen");
  return socket;
}

File listen_tcp(const std::string& where, std::uint16_t& port) {
  sockaddr_storage address;
  socklen_t size = resolved(where, port, address);
  File socket = open_socket(address.ss_family);
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) refused("bind");
  if (listen(socket.get(), SOMAXCONN) != 0) refused("listen");
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) refused("getsockname");
  port = ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&address)->sin_port
                                            : reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return socket;
}

File connect_unix(const std::string& name) {
  File socket = open_socket(AF_UNIX);
  sockaddr_un address;
  const socklen_t size = named(name, address);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) refused("connect");
  if (!is_friend(socket.get())) refused("a socket of another user", EACCES);
  tune_unix(socket.get());
  return socket;
}

File connect_tcp(const std::string& where, std::uint16_t port, int timeout_ms) {
  sockaddr_storage address;
  const socklen_t size = resolved(where, port, address);
  File socket = open_socket(address.ss_family);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    if (errno != EINPROGRESS) refused("connect");
    pollfd waiting{socket.get(), POLLOUT, 0};
    const int found = poll(&waiting, 1, timeout_ms);
    if (found <= 0) refused("connect", found == 0 ? ETIMEDOUT : errno);
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) refused("connect", error);
  }
  tune_tcp(socket.get());
  return socket;
}

File accept_from(int listening, bool is_unix) {
  while (true) {
    File socket(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (socket.get() < 0) return socket;
    if (!is_unix) {
      tune_tcp(socket.get());
    } else if (is_friend(socket.get())) {
      tune_unix(socket.get());
    } else {
      continue;
    }
    return socket;
  }
}

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "somebody who has gone";
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
    return "ipv4:" + std::string(text) + ":" + std::to_string(ntohs(four->sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
    return "ipv6:[" + std::string(text) + "]:" + std::to_string(ntohs(six->sin6_port));
  }
  return "this machine";
}

std::ptrdiff_t receive(int socket, std::byte* to, std::size_t size, std::deque<File>& files) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFiles * sizeof(int))];
  iovec vector{to, size};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  std::ptrdiff_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return received;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(one) + i * sizeof(int), sizeof number);
      files.emplace_back(number);
    }
  }
  return received;
}

void drop(std::deque<Piece>& pieces, std::size_t sent) {
  while (!pieces.empty()) {
    Piece& first = pieces.front();
    const std::size_t taken = std::min(sent, first.size);
    first.data += taken;
    first.size -= taken;
    sent -= taken;
    if (first.size != 0) return;
    pieces.pop_front();
  }
}

bool send_some(int socket, std::deque<Piece>& pieces) {
  constexpr std::size_t kMost = 16;
  while (!pieces.empty()) {
    iovec vectors[kMost];
    std::size_t count = 0;
    // A file goes along with the first byte, so it begins a message of its own.
    for (; count < std::min(kMost, pieces.size()) && (count == 0 || pieces[count].file < 0); ++count) {
      vectors[count] = {const_cast<std::byte*>(pieces[count].data), pieces[count].size};
    }
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = count;
    if (pieces.front().file >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &pieces.front().file, sizeof(int));
    }
    const std::ptrdiff_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    pieces.front().file = -1;
    drop(pieces, static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace fleet::plane
