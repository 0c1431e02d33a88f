// TLS around a connection between machines, by OpenSSL: both ends show a certificate, and both check that of the other.
//
// Both ends are ours, so it is TLS 1.3 and nothing older: there is no renegotiation. Connections are few and long:
// there are no sessions to resume, either.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plane/openssl.h"
#include "plane/stream.h"

namespace fleet::plane {

// After so many records a side changes its key: AES-GCM is safe for 2^24.5 of them.
constexpr std::uint64_t kRecordsOfAKey = std::uint64_t{1} << 22;

// What one process shows to others, and by what it judges them; for any number of connections, of many threads.
class Tls : public std::enable_shared_from_this<Tls> {
 public:
  // The first library that can be had is used. A certificate with its chain, its key, and the authorities that
  // certificates of others must be signed by, all PEM. std::runtime_error says what cannot be had, or used.
  static std::shared_ptr<Tls> make(const std::vector<std::string>& libraries, const std::string& certificate,
                                   const std::string& key, const std::string& authority,
                                   std::uint64_t records_of_a_key = kRecordsOfAKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // What the library calls itself.
  const std::string& library() const { return ssl_.name; }

  // A connection that somebody else has made. Hands are shaken while it is read.
  std::unique_ptr<Stream> accept(File socket) const;
  // A connection that we have made, with hands shaken; the other's certificate must carry the name, or be for the
  // address, that is given. std::runtime_error if one of the two refuses, std::system_error if the time is over.
  std::unique_ptr<Stream> connect(File socket, const std::string& name, std::int64_t deadline_ms) const;

 private:
  friend class TlsStream;
  Tls(const OpenSsl& ssl, std::uint64_t records_of_a_key);
  void show(const std::string& certificate, const std::string& key);
  void trust(const std::string& authority);
  [[noreturn]] void refuse(const std::string& what) const;

  const OpenSsl& ssl_;
  const std::uint64_t records_of_a_key_;
  OpenSsl::Context* context_;
  OpenSsl::BioMethod* socket_;  // how the library reads and writes
};

}  // namespace fleet::plane
