// Sockets of a data plane: Unix sockets by an abstract name, which leave no file behind, and TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace fleet::plane {

// Of a clock that never goes back.
std::int64_t now_ms();

// An open file descriptor, closed at the end.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  ~File() { reset(); }
  File(File&& other) noexcept : number_(other.release()) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int get() const { return number_; }
  int release();
  void reset(int number = -1);

 private:
  int number_ = -1;
};

// Both throw std::system_error. The name of a Unix socket is abstract: it lives in the network's namespace.
File listen_unix(const std::string& name);
// `port` 0 lets the system choose, and is set to what it chose.
File listen_tcp(const std::string& address, std::uint16_t& port);

// A connection, not blocking; std::system_error, also when `timeout_ms` are over. A Unix socket must belong to this
// user or to root: whoever else has the name gets nothing from us.
File connect_unix(const std::string& name);
File connect_tcp(const std::string& address, std::uint16_t port, int timeout_ms);

// The next connection of a listening socket, not blocking; -1 if there is none. Of another user: closed at once.
File accept_from(int listening, bool is_unix);

// Who is at the other end, as gRPC writes it.
std::string peer_of(int socket);

// As `recv`, with files that come along put into `files`.
std::ptrdiff_t receive(int socket, std::byte* to, std::size_t size, std::deque<File>& files);

// One piece of what is to be sent: bytes that `owner` keeps, and a file that goes along with the first of them.
struct Piece {
  const std::byte* data;
  std::size_t size;
  std::shared_ptr<void> owner;
  int file = -1;
};

// Drops so many bytes, which are sent, and pieces that are empty.
void drop(std::deque<Piece>& pieces, std::size_t sent);
// Sends pieces until the socket takes no more, and drops what is sent; false if the connection is broken.
bool send_some(int socket, std::deque<Piece>& pieces);

}  // namespace fleet::plane
