// How a client reaches a server: by which socket, and the greeting, which has a deadline.
#include <poll.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "plane/client.h"
#include "plane/loop.h"

namespace fleet::plane {

namespace {

// Waits until a socket can be read or written.
void await(int socket, short what, std::int64_t deadline_ms) {
  pollfd waiting{socket, what, 0};
  const auto left = deadline_ms - now_ms();
  if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0) {
    throw std::system_error(ETIMEDOUT, std::generic_category(), "hello");
  }
}

void receive_whole(Stream& stream, std::byte* to, std::size_t size, std::int64_t deadline_ms) {
  std::deque<File> files;
  while (size != 0) {
    const std::ptrdiff_t received = stream.receive(to, size, files);
    if (received == 0 && stream.refusal() != nullptr) throw std::runtime_error(stream.refusal());
    if (received == 0) throw std::system_error(ECONNRESET, std::generic_category(), "hello");
    if (received < 0) {
      if (errno != EAGAIN) throw std::system_error(errno, std::generic_category(), "hello");
      await(stream.socket(), stream.has_more() ? POLLIN | POLLOUT : POLLIN, deadline_ms);
      continue;
    }
    to += received;
    size -= static_cast<std::size_t>(received);
  }
}

}  // namespace

std::shared_ptr<Client> Client::to_unix(const std::string& name, const std::string& token, int timeout_ms,
                                        bool use_blocks) {
  return begin(std::make_unique<PlainStream>(connect_unix(name)), token, timeout_ms, use_blocks);
}

std::shared_ptr<Client> Client::to_tcp(const std::string& address, std::uint16_t port, const std::string& token,
                                       int timeout_ms) {
  return begin(std::make_unique<PlainStream>(connect_tcp(address, port, timeout_ms)), token, timeout_ms, false);
}

std::shared_ptr<Client> Client::to_tls(const std::string& address, std::uint16_t port, const Tls& tls,
                                       const std::string& name, const std::string& token, int timeout_ms) {
  File socket = connect_tcp(address, port, timeout_ms);
  return begin(tls.connect(std::move(socket), name, now_ms() + timeout_ms), token, timeout_ms, false);
}

std::shared_ptr<Client> Client::begin(std::unique_ptr<Stream> stream, const std::string& token, int timeout_ms,
                                      bool use_blocks) {
  const std::int64_t deadline = now_ms() + timeout_ms;
  Head hello;
  hello.size = token.size();
  std::deque<Piece> pieces{piece_of(hello)};
  if (!token.empty()) pieces.push_back({reinterpret_cast<const std::byte*>(token.data()), token.size(), nullptr});
  while (!pieces.empty()) {
    if (!stream->send_some(pieces)) throw std::system_error(errno, std::generic_category(), "hello");
    if (!pieces.empty()) await(stream->socket(), POLLOUT, deadline);
  }
  Head answer;
  receive_whole(*stream, reinterpret_cast<std::byte*>(&answer), sizeof answer, deadline);
  if (answer.magic == kMagic && answer.kind == Kind::kError && answer.size <= kMaxText) {
    std::string text(answer.size, ' ');
    receive_whole(*stream, reinterpret_cast<std::byte*>(text.data()), text.size(), deadline);
    throw std::runtime_error(text);
  }
  if (answer.magic != kMagic || answer.kind != Kind::kWelcome) throw std::runtime_error("it is no server of Fleet");
  std::shared_ptr<Client> client(new Client(std::move(stream), use_blocks));
  client->loop_ = Loop::shared();
  client->loop_->add(client, client->stream_->socket());
  return client;
}

}  // namespace fleet::plane
