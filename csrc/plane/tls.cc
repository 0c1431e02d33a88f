#include "plane/tls.h"

#include <limits>
#include <stdexcept>

#include "plane/tls_stream.h"

namespace fleet::plane {

namespace {

// Numbers of OpenSSL's headers.
constexpr int kSetMode = 33, kReadAhead = 41, kSessionCache = 44, kAddChain = 89, kMinVersion = 123;
constexpr long kTls13 = 0x0304, kNoCache = 0;
constexpr long kPartialWrites = 1, kMovingBuffers = 2, kReleaseBuffers = 16;
constexpr std::uint64_t kNoTickets = 0x4000, kNoCompression = 0x20000, kNoRenegotiation = 0x40000000;
constexpr int kVerifyPeer = 1, kNotWithout = 2;
constexpr unsigned long kTrustedFirst = 0x8000, kPartialChain = 0x80000;
// In the order in which gRPC prefers them.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

// Nobody is there to be asked for a password.
int no_password(char*, int, int, void*) { return -1; }

template <class T, class Free>
std::unique_ptr<T, Free> owned(T* object, Free free) {
  return {object, free};
}

}  // namespace

std::shared_ptr<Tls> Tls::make(const std::vector<std::string>& libraries, const std::string& certificate,
                               const std::string& key, const std::string& authority, std::uint64_t records_of_a_key) {
  const OpenSsl& ssl = OpenSsl::load(libraries);
  ssl.ERR_clear_error();
  std::shared_ptr<Tls> made(new Tls(ssl, records_of_a_key));
  made->show(certificate, key);
  made->trust(authority);
  ssl.ERR_clear_error();
  return made;
}

Tls::Tls(const OpenSsl& ssl, std::uint64_t records_of_a_key)
    : ssl_(ssl), records_of_a_key_(records_of_a_key), context_(ssl.SSL_CTX_new(ssl.TLS_method())) {
  if (context_ == nullptr) refuse("a context");
  socket_ = TlsStream::make_method(ssl);
  const bool is_set = socket_ != nullptr && ssl_.SSL_CTX_ctrl(context_, kMinVersion, kTls13, nullptr) == 1 &&
                      ssl_.SSL_CTX_set_ciphersuites(context_, kCiphers) == 1 &&
                      ssl_.SSL_CTX_set_num_tickets(context_, 0) == 1;
  if (!is_set) {
    const std::string why = ssl_.error();
    ssl_.ERR_clear_error();
    ssl_.SSL_CTX_free(context_);
    ssl_.BIO_meth_free(socket_);
    throw std::runtime_error("TLS 1.3: " + why);
  }
  ssl_.SSL_CTX_set_options(context_, kNoTickets | kNoCompression | kNoRenegotiation);
  ssl_.SSL_CTX_ctrl(context_, kSetMode, kPartialWrites | kMovingBuffers | kReleaseBuffers, nullptr);
  ssl_.SSL_CTX_ctrl(context_, kSessionCache, kNoCache, nullptr);
  ssl_.SSL_CTX_ctrl(context_, kReadAhead, 1, nullptr);
  ssl_.SSL_CTX_set_verify(context_, kVerifyPeer | kNotWithout, nullptr);
}

Tls::~Tls() {
  const Inside inside;
  if (inside.is_over()) return;
  ssl_.SSL_CTX_free(context_);
  ssl_.BIO_meth_free(socket_);
}

void Tls::refuse(const std::string& what) const {
  const std::string why = ssl_.error();
  ssl_.ERR_clear_error();
  throw std::runtime_error(what + ": " + why);
}

void Tls::show(const std::string& certificate, const std::string& key) {
  const auto text =
      owned(ssl_.BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())), ssl_.BIO_free);
  const auto own = owned(ssl_.PEM_read_bio_X509(text.get(), nullptr, no_password, nullptr), ssl_.X509_free);
  if (own == nullptr || ssl_.SSL_CTX_use_certificate(context_, own.get()) != 1) refuse("the certificate");
  while (auto* more = ssl_.PEM_read_bio_X509(text.get(), nullptr, no_password, nullptr)) {
    if (ssl_.SSL_CTX_ctrl(context_, kAddChain, 0, more) != 1) {
      ssl_.X509_free(more);
      refuse("the chain of the certificate");
    }
  }
  ssl_.ERR_clear_error();  // of the end of the text
  const auto secret = owned(ssl_.BIO_new_mem_buf(key.data(), static_cast<int>(key.size())), ssl_.BIO_free);
  const auto own_key =
      owned(ssl_.PEM_read_bio_PrivateKey(secret.get(), nullptr, no_password, nullptr), ssl_.EVP_PKEY_free);
  if (own_key == nullptr || ssl_.SSL_CTX_use_PrivateKey(context_, own_key.get()) != 1) refuse("the key");
  if (ssl_.SSL_CTX_check_private_key(context_) != 1) refuse("the key of the certificate");
}

void Tls::trust(const std::string& authority) {
  const auto text = owned(ssl_.BIO_new_mem_buf(authority.data(), static_cast<int>(authority.size())), ssl_.BIO_free);
  OpenSsl::Store* store = ssl_.SSL_CTX_get_cert_store(context_);
  int count = 0;
  for (;; ++count) {
    const auto one = owned(ssl_.PEM_read_bio_X509(text.get(), nullptr, no_password, nullptr), ssl_.X509_free);
    if (one == nullptr) break;
    if (ssl_.X509_STORE_add_cert(store, one.get()) != 1) refuse("the authority");
  }
  if (count == 0) refuse("the authority");
  // As gRPC does: an authority that is named is trusted, whoever has signed it.
  ssl_.X509_STORE_set_flags(store, kTrustedFirst | kPartialChain);
}

std::unique_ptr<Stream> Tls::accept(File socket) const {
  return std::make_unique<TlsStream>(shared_from_this(), std::move(socket), nullptr);
}

std::unique_ptr<Stream> Tls::connect(File socket, const std::string& name, std::int64_t deadline_ms) const {
  auto made = std::make_unique<TlsStream>(shared_from_this(), std::move(socket), &name);
  made->shake_hands(deadline_ms);
  return made;
}

}  // namespace fleet::plane
