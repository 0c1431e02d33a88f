#include "plane/tls_stream.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace fleet::plane {

namespace {

constexpr std::size_t kRecord = 16 << 10;  // the most that one record holds
// Numbers of OpenSSL's headers.
constexpr int kServerName = 55, kFlush = 11, kSourceSink = 0x400, kOwnKind = 0x80;
constexpr int kReads = 1, kWrites = 2, kRetry = 8, kAllRetries = 15;
constexpr int kWantRead = 2, kWantWrite = 3;
constexpr unsigned kNoPartialWildcards = 4;
constexpr int kWithoutAnswer = 0;

// Whose function this thread is inside of: the library tells its callbacks less than that.
thread_local TlsStream* at_work = nullptr;

long control(OpenSsl::Bio*, int what, long, void*) { return what == kFlush ? 1 : 0; }

bool is_address(const std::string& name) {
  in6_addr any;
  return inet_pton(AF_INET, name.c_str(), &any) == 1 || inet_pton(AF_INET6, name.c_str(), &any) == 1;
}

}  // namespace

// The library's own way to a socket would have a lost connection end the process by SIGPIPE.
OpenSsl::BioMethod* TlsStream::make_method(const OpenSsl& ssl) {
  OpenSsl::BioMethod* made = ssl.BIO_meth_new(kSourceSink | kOwnKind, "a socket of Fleet");
  if (made == nullptr) return nullptr;
  ssl.BIO_meth_set_write(made, &TlsStream::write);
  ssl.BIO_meth_set_read(made, &TlsStream::read);
  ssl.BIO_meth_set_ctrl(made, &control);
  return made;
}

int TlsStream::write(OpenSsl::Bio* bio, const char* from, int size) {
  const OpenSsl& ssl = at_work->ssl_;
  std::ptrdiff_t sent;
  do {
    sent = send(at_work->socket(), from, static_cast<std::size_t>(size),
                MSG_NOSIGNAL | (at_work->has_next_ ? MSG_MORE : 0));
  } while (sent < 0 && errno == EINTR);
  ssl.BIO_clear_flags(bio, kAllRetries);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ssl.BIO_set_flags(bio, kWrites | kRetry);
  return static_cast<int>(sent);
}

int TlsStream::read(OpenSsl::Bio* bio, char* to, int size) {
  const OpenSsl& ssl = at_work->ssl_;
  std::ptrdiff_t received;
  do {
    received = recv(at_work->socket(), to, static_cast<std::size_t>(size), 0);
  } while (received < 0 && errno == EINTR);
  ssl.BIO_clear_flags(bio, kAllRetries);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ssl.BIO_set_flags(bio, kReads | kRetry);
  return static_cast<int>(received);
}

TlsStream::TlsStream(std::shared_ptr<const Tls> tls, File socket, const std::string* name)
    : Stream(std::move(socket)), tls_(std::move(tls)), ssl_(tls_->ssl_), is_server_(name == nullptr), owner_(getpid()) {
  const Inside inside;
  if (inside.is_over()) throw std::runtime_error("TLS: the process ends");
  connection_ = ssl_.SSL_new(tls_->context_);
  OpenSsl::Bio* bio = connection_ == nullptr ? nullptr : ssl_.BIO_new(tls_->socket_);
  if (bio == nullptr) {
    if (connection_ != nullptr) ssl_.SSL_free(connection_);
    throw std::bad_alloc();
  }
  ssl_.BIO_set_init(bio, 1);
  ssl_.SSL_set_bio(connection_, bio, bio);
  if (is_server_) {
    ssl_.SSL_set_accept_state(connection_);
  } else {
    ssl_.SSL_set_connect_state(connection_);
    expect(*name);
  }
}

TlsStream::~TlsStream() {
  if (owner_ != getpid()) return;  // another thread may have been inside when this process was forked
  const Inside inside;
  if (!inside.is_over()) ssl_.SSL_free(connection_);
}

// The rules are gRPC's: a name by the names of the certificate, an address by its addresses.
void TlsStream::expect(const std::string& name) {
  OpenSsl::Param* param = ssl_.SSL_get0_param(connection_);
  ssl_.X509_VERIFY_PARAM_set_hostflags(param, kNoPartialWildcards);
  bool is_set = false;
  if (is_address(name)) {
    is_set = ssl_.X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str()) == 1;
  } else {
    std::string text = name;
    is_set = !name.empty() && ssl_.X509_VERIFY_PARAM_set1_host(param, name.c_str(), name.size()) == 1 &&
             ssl_.SSL_ctrl(connection_, kServerName, 0, text.data()) == 1;
  }
  if (is_set) return;
  ssl_.ERR_clear_error();
  ssl_.SSL_free(connection_);
  throw std::runtime_error("TLS: " + name + " is no name of a server");
}

template <class Function>
TlsStream::Step TlsStream::step(Function&& function, int& count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Inside inside;
  if (is_over_ || inside.is_over()) return Step::kOver;
  at_work = this;
  ssl_.ERR_clear_error();
  count = function();
  const Step found = judge(count);
  at_work = nullptr;
  return found;
}

TlsStream::Step TlsStream::judge(int count) {
  if (count > 0) {
    is_open_ = true;
    return Step::kDone;
  }
  const int why = ssl_.SSL_get_error(connection_, count);
  if (why == kWantRead) return Step::kWantsToRead;
  if (why == kWantWrite) return Step::kWantsToWrite;
  is_over_ = true;
  if (ssl_.ERR_peek_error() != 0) note(ssl_.error());
  ssl_.ERR_clear_error();  // Python's own connections look there, too
  return Step::kOver;
}

void TlsStream::note(const std::string& why) {
  why_ = why;
  const long verified = ssl_.SSL_get_verify_result(connection_);
  if (verified != 0) why_ += std::string(" (") + ssl_.X509_verify_cert_error_string(verified) + ")";
  const bool is_alert = why.find(" alert ") != std::string::npos;
  if (!is_server_) {
    if (is_alert) refusal_ = "it refuses the certificate of this process";
    return;
  }
  if (is_open_ || why.find("unexpected eof") != std::string::npos) return;
  if (verified != 0) {
    refusal_ = "a certificate of another authority";
  } else if (why.find("did not return a certificate") != std::string::npos) {
    refusal_ = "no certificate";
  } else if (is_alert) {
    refusal_ = "no trust in the certificate of this server";
  } else {
    refusal_ = "no TLS that this server speaks";
  }
}

void TlsStream::shake_hands(std::int64_t deadline_ms) {
  while (true) {
    int count = 0;
    const Step found = step([&] { return ssl_.SSL_do_handshake(connection_); }, count);
    if (found == Step::kDone) return;
    if (found == Step::kOver) {
      if (why_.empty()) throw std::system_error(ECONNRESET, std::generic_category(), "TLS");
      throw std::runtime_error("TLS: " + why_);
    }
    pollfd waiting{socket(), static_cast<short>(found == Step::kWantsToRead ? POLLIN : POLLOUT), 0};
    const auto left = deadline_ms - now_ms();
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0) {
      throw std::system_error(ETIMEDOUT, std::generic_category(), "TLS");
    }
  }
}

std::ptrdiff_t TlsStream::receive(std::byte* to, std::size_t size, std::deque<File>&) {
  std::size_t filled = 0;
  Step found = Step::kDone;
  while (filled < size && found == Step::kDone) {
    const int most = static_cast<int>(std::min(size - filled, std::size_t{1} << 30));
    int count = 0;
    found = step([&] { return ssl_.SSL_read(connection_, to + filled, most); }, count);
    if (found == Step::kDone) filled += static_cast<std::size_t>(count);
  }
  // What is not drained may lie in the library, of which epoll knows nothing; and the end is told once more.
  has_more_ = found != Step::kWantsToRead;
  if (filled != 0) return static_cast<std::ptrdiff_t>(filled);
  if (found == Step::kOver) return 0;
  errno = EAGAIN;
  return -1;
}

TlsStream::Record TlsStream::next_record(const std::deque<Piece>& pieces) {
  const Piece& first = pieces.front();
  if (pieces.size() == 1) return {first.data, std::min(first.size, kRecord), first.size <= kRecord};
  if (first.size >= kRecord) return {first.data, kRecord, false};
  record_.resize(kRecord);
  std::size_t filled = 0;
  bool is_last = true;
  for (const Piece& one : pieces) {
    const std::size_t taken = std::min(one.size, kRecord - filled);
    if (taken != 0) std::memcpy(record_.data() + filled, one.data, taken);
    filled += taken;
    if (taken < one.size) {
      is_last = false;
      break;
    }
  }
  return {record_.data(), filled, is_last};
}

bool TlsStream::send_some(std::deque<Piece>& pieces) {
  drop(pieces, 0);
  while (!pieces.empty()) {
    if (pieces.front().file >= 0) return false;
    // What could not be written is tried again with the same bytes, and maybe more behind them.
    const Record record = next_record(pieces);
    int count = 0;
    const Step found = step([&] { return write_record(record); }, count);
    if (found == Step::kOver) return false;
    if (found != Step::kDone) return true;
    drop(pieces, static_cast<std::size_t>(count));
  }
  return true;
}

int TlsStream::write_record(const Record& record) {
  if (num_records_ >= tls_->records_of_a_key_ && !is_stuck_) {
    if (ssl_.SSL_key_update(connection_, kWithoutAnswer) != 1) return -1;
    num_records_ = 0;
  }
  has_next_ = !record.is_last;
  const int written = ssl_.SSL_write(connection_, record.data, static_cast<int>(record.size));
  has_next_ = false;
  is_stuck_ = written <= 0;
  if (!is_stuck_) ++num_records_;
  return written;
}

}  // namespace fleet::plane
