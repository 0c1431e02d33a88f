// What bytes of a connection go through: the socket itself, or something around it that both ends agree on.
//
// One thread may read while another writes; whoever implements it sees to that.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "plane/socket.h"

namespace fleet::plane {

class Stream {
 public:
  explicit Stream(File socket) : socket_(std::move(socket)) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int socket() const { return socket_.get(); }

  // As `recv`, with files that come along put into `files`. Fewer bytes than asked for: there are no more now.
  virtual std::ptrdiff_t receive(std::byte* to, std::size_t size, std::deque<File>& files) = 0;
  // Sends pieces until the socket takes no more, and drops what is sent; false if the connection is broken.
  virtual bool send_some(std::deque<Piece>& pieces) = 0;
  // Whether there is more to read that the socket does not tell of: it goes on when the socket can be written to.
  virtual bool has_more() const { return false; }
  // What is wrong with the other, or what the other has against us, where the stream itself looks; null: nothing.
  virtual const char* refusal() const { return nullptr; }

 private:
  const File socket_;
};

// Bytes as they are.
class PlainStream : public Stream {
 public:
  using Stream::Stream;
  std::ptrdiff_t receive(std::byte* to, std::size_t size, std::deque<File>& files) override {
    return plane::receive(socket(), to, size, files);
  }
  bool send_some(std::deque<Piece>& pieces) override { return plane::send_some(socket(), pieces); }
};

}  // namespace fleet::plane
