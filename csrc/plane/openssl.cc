#include "plane/openssl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>

namespace fleet::plane {

namespace {

constexpr unsigned long kOldest = 0x10101000UL, kNewest = 0x40000000UL;
constexpr std::chrono::seconds kPatience{2};

// Of the whole process, and never destroyed: threads may outlive whatever is.
struct Doors {
  std::shared_timed_mutex mutex;
  std::atomic<bool> are_closed{false};
  std::atomic<pid_t> owner{0};
};

Doors& doors() {
  static Doors* made = new Doors();
  return *made;
}

void close_doors() {
  Doors& all = doors();
  all.are_closed = true;
  if (all.owner != getpid()) return;  // a process that was forked has none of the threads, and maybe a lock of theirs
  if (all.mutex.try_lock_for(kPatience)) all.mutex.unlock();
}

// The functions in one library. The library stays open: it cannot be told when nobody needs it any more.
class Found {
 public:
  explicit Found(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }

  template <class Function>
  void find(const char* name, Function*& to) const {
    void* found = dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(std::string("it has no ") + name);
    to = reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_;
};

#define FLEET_FIND(name) found.find(#name, made->name)

std::unique_ptr<OpenSsl> open(const std::string& library) {
  const Found found(library);
  auto made = std::make_unique<OpenSsl>();
  FLEET_FIND(OpenSSL_version_num);
  FLEET_FIND(OpenSSL_version);
  made->name = made->OpenSSL_version(0);
  const unsigned long version = made->OpenSSL_version_num();
  if (made->name.rfind("OpenSSL ", 0) != 0 || version < kOldest || version >= kNewest) {
    throw std::runtime_error("it is " + made->name + ", and we know OpenSSL 1.1.1 and 3");
  }
  FLEET_FIND(OPENSSL_init_ssl);
  FLEET_FIND(ERR_clear_error);
  FLEET_FIND(ERR_peek_error);
  FLEET_FIND(ERR_reason_error_string);
  FLEET_FIND(TLS_method);
  FLEET_FIND(SSL_CTX_new);
  FLEET_FIND(SSL_CTX_free);
  FLEET_FIND(SSL_CTX_ctrl);
  FLEET_FIND(SSL_CTX_set_options);
  FLEET_FIND(SSL_CTX_set_ciphersuites);
  FLEET_FIND(SSL_CTX_set_num_tickets);
  FLEET_FIND(SSL_CTX_set_verify);
  FLEET_FIND(SSL_CTX_use_certificate);
  FLEET_FIND(SSL_CTX_use_PrivateKey);
  FLEET_FIND(SSL_CTX_check_private_key);
  FLEET_FIND(SSL_CTX_get_cert_store);
  FLEET_FIND(X509_STORE_add_cert);
  FLEET_FIND(X509_STORE_set_flags);
  FLEET_FIND(BIO_new_mem_buf);
  FLEET_FIND(BIO_free);
  FLEET_FIND(PEM_read_bio_X509);
  FLEET_FIND(PEM_read_bio_PrivateKey);
  FLEET_FIND(X509_free);
  FLEET_FIND(EVP_PKEY_free);
  FLEET_FIND(BIO_meth_new);
  FLEET_FIND(BIO_meth_free);
  FLEET_FIND(BIO_meth_set_write);
  FLEET_FIND(BIO_meth_set_read);
  FLEET_FIND(BIO_meth_set_ctrl);
  FLEET_FIND(BIO_new);
  FLEET_FIND(BIO_set_init);
  FLEET_FIND(BIO_set_flags);
  FLEET_FIND(BIO_clear_flags);
  FLEET_FIND(SSL_new);
  FLEET_FIND(SSL_free);
  FLEET_FIND(SSL_set_bio);
  FLEET_FIND(SSL_set_accept_state);
  FLEET_FIND(SSL_set_connect_state);
  FLEET_FIND(SSL_ctrl);
  FLEET_FIND(SSL_get0_param);
  FLEET_FIND(X509_VERIFY_PARAM_set1_host);
  FLEET_FIND(X509_VERIFY_PARAM_set1_ip_asc);
  FLEET_FIND(X509_VERIFY_PARAM_set_hostflags);
  FLEET_FIND(SSL_do_handshake);
  FLEET_FIND(SSL_read);
  FLEET_FIND(SSL_write);
  FLEET_FIND(SSL_get_error);
  FLEET_FIND(SSL_key_update);
  FLEET_FIND(SSL_get_verify_result);
  FLEET_FIND(X509_verify_cert_error_string);
  if (made->OPENSSL_init_ssl(0, nullptr) != 1) throw std::runtime_error("it cannot begin: " + made->error());
  return made;
}

#undef FLEET_FIND

}  // namespace

const OpenSsl& OpenSsl::load(const std::vector<std::string>& libraries) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<OpenSsl>>();
  const std::lock_guard<std::mutex> lock(mutex);
  doors().owner = getpid();
  std::string why;
  for (const std::string& one : libraries) {
    const auto before = known->find(one);
    if (before != known->end()) return *before->second;
    try {
      auto made = open(one);
      // What is registered last is called first: before the library's own end, which its begin has registered.
      if (known->empty() && std::atexit(close_doors) != 0) throw std::runtime_error("no memory");
      return *known->emplace(one, std::move(made)).first->second;
    } catch (const std::runtime_error& error) {
      why += (why.empty() ? "" : "; ") + one + ": " + error.what();
    }
  }
  throw std::runtime_error(why.empty() ? "no library is named" : why);
}

std::string OpenSsl::error() const {
  const char* text = ERR_reason_error_string(ERR_peek_error());
  return text != nullptr ? text : "the connection was lost";
}

Inside::Inside() {
  Doors& all = doors();
  if (all.are_closed) return;
  lock_ = std::shared_lock<std::shared_timed_mutex>(all.mutex);
  if (all.are_closed) lock_.unlock();
}

}  // namespace fleet::plane
