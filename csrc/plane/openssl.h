// OpenSSL, found when it is needed: we neither link it nor bring it along, so that one wheel runs everywhere.
//
// Only functions are named here that 1.1.1 and every 3.x have with the same meaning; types are never looked into.
#pragma once

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace fleet::plane {

struct OpenSsl {
  struct Context;
  struct Connection;
  struct Bio;
  struct BioMethod;
  struct Certificate;
  struct Key;
  struct Store;
  struct Param;

  // The first of these that can be had: names or paths of libssl, or of whatever is linked with it. It stays for good.
  // std::runtime_error says what is wrong with each.
  static const OpenSsl& load(const std::vector<std::string>& libraries);

  // What it calls itself.
  std::string name;

  // Named as in OpenSSL, where each is described.
  unsigned long (*OpenSSL_version_num)();
  const char* (*OpenSSL_version)(int);
  int (*OPENSSL_init_ssl)(std::uint64_t, const void*);
  void (*ERR_clear_error)();
  unsigned long (*ERR_peek_error)();
  const char* (*ERR_reason_error_string)(unsigned long);

  const void* (*TLS_method)();
  Context* (*SSL_CTX_new)(const void*);
  void (*SSL_CTX_free)(Context*);
  long (*SSL_CTX_ctrl)(Context*, int, long, void*);
  std::uint64_t (*SSL_CTX_set_options)(Context*, std::uint64_t);
  int (*SSL_CTX_set_ciphersuites)(Context*, const char*);
  int (*SSL_CTX_set_num_tickets)(Context*, std::size_t);
  void (*SSL_CTX_set_verify)(Context*, int, int (*)(int, void*));
  int (*SSL_CTX_use_certificate)(Context*, Certificate*);
  int (*SSL_CTX_use_PrivateKey)(Context*, Key*);
  int (*SSL_CTX_check_private_key)(const Context*);
  Store* (*SSL_CTX_get_cert_store)(const Context*);
  int (*X509_STORE_add_cert)(Store*, Certificate*);
  int (*X509_STORE_set_flags)(Store*, unsigned long);

  Bio* (*BIO_new_mem_buf)(const void*, int);
  int (*BIO_free)(Bio*);
  Certificate* (*PEM_read_bio_X509)(Bio*, Certificate**, int (*)(char*, int, int, void*), void*);
  Key* (*PEM_read_bio_PrivateKey)(Bio*, Key**, int (*)(char*, int, int, void*), void*);
  void (*X509_free)(Certificate*);
  void (*EVP_PKEY_free)(Key*);

  BioMethod* (*BIO_meth_new)(int, const char*);
  void (*BIO_meth_free)(BioMethod*);
  int (*BIO_meth_set_write)(BioMethod*, int (*)(Bio*, const char*, int));
  int (*BIO_meth_set_read)(BioMethod*, int (*)(Bio*, char*, int));
  int (*BIO_meth_set_ctrl)(BioMethod*, long (*)(Bio*, int, long, void*));
  Bio* (*BIO_new)(const BioMethod*);
  void (*BIO_set_init)(Bio*, int);
  void (*BIO_set_flags)(Bio*, int);
  void (*BIO_clear_flags)(Bio*, int);

  Connection* (*SSL_new)(Context*);
  void (*SSL_free)(Connection*);
  void (*SSL_set_bio)(Connection*, Bio*, Bio*);
  void (*SSL_set_accept_state)(Connection*);
  void (*SSL_set_connect_state)(Connection*);
  long (*SSL_ctrl)(Connection*, int, long, void*);
  Param* (*SSL_get0_param)(Connection*);
  int (*X509_VERIFY_PARAM_set1_host)(Param*, const char*, std::size_t);
  int (*X509_VERIFY_PARAM_set1_ip_asc)(Param*, const char*);
  void (*X509_VERIFY_PARAM_set_hostflags)(Param*, unsigned);
  int (*SSL_do_handshake)(Connection*);
  int (*SSL_read)(Connection*, void*, int);
  int (*SSL_write)(Connection*, const void*, int);
  int (*SSL_get_error)(const Connection*, int);
  int (*SSL_key_update)(Connection*, int);
  long (*SSL_get_verify_result)(const Connection*);
  const char* (*X509_verify_cert_error_string)(long);

  // What went wrong last on this thread, in the library's words.
  std::string error() const;
};

// Held while the library works on a connection. When the process ends, the library takes itself apart under threads
// that still run: the end waits for those inside, and nobody comes in any more.
class Inside {
 public:
  Inside();
  bool is_over() const { return !lock_.owns_lock(); }

 private:
  std::shared_lock<std::shared_timed_mutex> lock_;
};

}  // namespace fleet::plane
