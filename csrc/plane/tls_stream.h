// One connection with TLS around it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "plane/tls.h"

namespace fleet::plane {

class TlsStream : public Stream {
 public:
  // `name`: what the other's certificate must carry; null: we are the server, and any of the job's will do.
  TlsStream(std::shared_ptr<const Tls> tls, File socket, const std::string* name);
  ~TlsStream() override;

  // How the library is to reach the socket; null if it has no memory.
  static OpenSsl::BioMethod* make_method(const OpenSsl& ssl);

  // Waits for the other until then; see Tls::connect.
  void shake_hands(std::int64_t deadline_ms);

  std::ptrdiff_t receive(std::byte* to, std::size_t size, std::deque<File>& files) override;
  bool send_some(std::deque<Piece>& pieces) override;
  bool has_more() const override { return has_more_; }
  const char* refusal() const override { return refusal_; }

 private:
  // How one step of reading, writing or shaking hands went.
  enum class Step { kDone, kWantsToRead, kWantsToWrite, kOver };

  // Bytes that go together.
  struct Record {
    const std::byte* data;
    std::size_t size;
    bool is_last;  // nothing waits behind it
  };

  static int write(OpenSsl::Bio* bio, const char* from, int size);
  static int read(OpenSsl::Bio* bio, char* to, int size);

  void expect(const std::string& name);
  // A function of the library that returns how much it has done.
  template <class Function>
  Step step(Function&& function, int& count);
  Step judge(int count);
  void note(const std::string& why);
  int write_record(const Record& record);
  // The next bytes to be sent as one record: small pieces together, large ones from where they lie.
  Record next_record(const std::deque<Piece>& pieces);

  const std::shared_ptr<const Tls> tls_;
  const OpenSsl& ssl_;
  const bool is_server_;
  const pid_t owner_;  // a process that is forked has no business with it
  std::atomic<bool> has_more_{false};
  std::atomic<const char*> refusal_{nullptr};

  std::mutex mutex_;  // guards what follows: the library takes one thread at a time for a connection
  OpenSsl::Connection* connection_ = nullptr;
  bool is_open_ = false;   // hands are shaken
  bool is_over_ = false;   // nothing can be read or written any more
  bool is_stuck_ = false;  // a record is half written
  bool has_next_ = false;  // another record follows at once
  std::string why_;        // it is over
  std::uint64_t num_records_ = 0;

  std::vector<std::byte> record_;  // the writer's own
};

}  // namespace fleet::plane
