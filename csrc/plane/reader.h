// The one reader of pulls and pushes: what they must look like in a job, as one of its servers sees it. Whatever way a
// request comes, over a connection, from Python or from a journal, its fields are checked here.
#pragma once

#include <cstdint>
#include <vector>

#include "plane/gradients.h"
#include "plane/message.h"

namespace fleet::plane {

// The first thing about a request that does not fit, in numbers. Python has the words (fleet.ps.held.requests).
struct Refusal {
  const char* what = "";
  std::int64_t place = -1;  // the table or the dense group; -1: it is about none
  std::uint64_t given = 0, wanted = 0;
  std::uint64_t width = 0;  // of rows; 0: they have none
  WireFormat format = WireFormat::kFloat32;
  double rate = 0;
};

class Reader {
 public:
  struct Table {
    std::size_t width;
    bool reads_zeros;  // whether a key without a row that is only read is zeros
  };
  struct Group {
    std::size_t size;
    bool is_exact;                          // its values travel as float32, whatever is asked for
    std::vector<std::uint32_t> parameters;  // that its parts belong to, by their places in the job's list
  };
  struct Job {
    std::vector<Table> tables;
    std::vector<Group> groups;
    std::size_t num_parameters = 0;
    bool takes_deltas = false;  // instead of gradients
    bool takes_passes = false;
  };

  explicit Reader(Job job) : job_(std::move(job)) {}

  const Job& job() const { return job_; }
  // False if a request does not fit the job, and why. The tensors must lie where numbers can be read in place.
  bool read(const PullHeader& header, const std::vector<Extent>& tensors, std::vector<Wanted>& wanted,
            Refusal& why) const;
  bool read(const PushHeader& header, const std::vector<Extent>& tensors, Gradients& gradients, Refusal& why) const;

 private:
  struct Asked {
    const std::vector<std::uint32_t>&tables, &only_read, &formats;
  };

  bool read_wanted(const Asked& asked, const Extent* tensors, std::size_t num_tensors, std::vector<Wanted>& wanted,
                   Refusal& why) const;
  bool read_part(const PushHeader::Table& entry, const Extent*& next, const Extent* end, Gradients& gradients,
                 Refusal& why) const;
  bool read_dense(const PushHeader& header, const Extent* next, const Extent* end, Gradients& gradients,
                  Refusal& why) const;
  bool read_group(const PushHeader::Dense& form, const Extent* own, Gradients::Group& group, Refusal& why) const;

  Job job_;
};

}  // namespace fleet::plane
