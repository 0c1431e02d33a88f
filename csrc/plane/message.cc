#include "plane/message.h"

#include <cstring>

namespace fleet::plane {

namespace {

constexpr std::size_t kAlignment = 8;
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr std::uint8_t kHeaderTag = 1 << 3 | kBytes, kTensorTag = 2 << 3 | kBytes, kPaddingTag = 15 << 3 | kBytes;

// The fields of a message, one after the other.
class Fields {
 public:
  Fields(const std::byte* data, std::size_t size) : at_(data), end_(data + size), size_(size) {}

  // False at the end, and where the bytes are no field; `is_broken` tells which, and `why` what is wrong.
  bool next() {
    if (at_ == end_) return false;
    std::uint64_t tag = 0;
    if (!varint(tag, 5)) return fail();
    if (tag >> 3 == 0 || tag >> 3 >= std::uint64_t{1} << 29) return fail("field number " + std::to_string(tag >> 3));
    number = static_cast<std::uint32_t>(tag >> 3);
    kind = static_cast<unsigned>(tag & 7);
    if (kind == kVarint) return varint(value) || fail();
    if (kind != kBytes && kind != kFixed64 && kind != kFixed32) {
      return fail("field " + std::to_string(number) + " has wire type " + std::to_string(kind));
    }
    std::uint64_t size = kind == kFixed64 ? 8 : 4;
    if (kind == kBytes && !varint(size)) return fail();
    if (size > static_cast<std::uint64_t>(end_ - at_)) return fail();
    content = {at_, static_cast<std::size_t>(size)};
    at_ += size;
    return true;
  }

  bool is_broken = false;
  std::string why;
  std::uint32_t number = 0;
  unsigned kind = 0;
  std::uint64_t value = 0;  // of a varint
  Extent content;           // of all others

  // The number of a field that is one, also in the packed form of a list.
  template <class Take>
  bool numbers(Take&& take) {
    if (kind == kVarint) {
      take(value);
      return true;
    }
    if (kind != kBytes) return false;
    Fields inside(content.data, content.size);
    std::uint64_t one = 0;
    while (inside.at_ != inside.end_) {
      if (!inside.varint(one)) return false;
      take(one);
    }
    return true;
  }

  template <class Take>
  bool doubles(Take&& take) {
    if ((kind != kFixed64 && kind != kBytes) || content.size % sizeof(double) != 0) return false;
    for (std::size_t i = 0; i < content.size; i += sizeof(double)) {
      double one = 0;
      std::memcpy(&one, content.data + i, sizeof one);
      take(one);
    }
    return true;
  }

 private:
  bool fail(std::string what = {}) {
    is_broken = true;
    if (why.empty())
      why = what.empty() ? "its " + std::to_string(size_) + " bytes end inside a field" : std::move(what);
    return false;
  }

  bool varint(std::uint64_t& out, unsigned most = 10) {
    out = 0;
    for (unsigned i = 0; i < most; ++i) {
      if (at_ == end_) return false;
      const auto byte = static_cast<std::uint64_t>(*at_++);
      if (i == 9 && byte > 1) break;
      out |= (byte & 0x7f) << 7 * i;
      if (byte < 0x80) return true;
    }
    return fail("a number of more than " + std::to_string(most) + " bytes");
  }

  const std::byte* at_;
  const std::byte* end_;
  std::size_t size_;
};

const std::byte* bytes_of(const std::string& text) { return reinterpret_cast<const std::byte*>(text.data()); }

bool read_caller(const Extent& content, Caller& caller, bool& is_plain) {
  Fields fields(content.data, content.size);
  while (fields.next()) {
    if (fields.kind != (fields.number == 7 ? kFixed64 : kVarint)) return false;
    switch (fields.number) {
      case 1:
        if (fields.value > 0xffffffffu) return false;
        caller.worker = static_cast<std::uint32_t>(fields.value);
        break;
      case 2: caller.incarnation = fields.value; break;
      case 3: caller.instance = fields.value; break;
      case 4: caller.is_traced = fields.value != 0; break;
      case 5: caller.term = fields.value; break;
      case 6:  // the last step that is on all servers, which only Python reads
      case 7:  // the norm of its mean, likewise
        break;
      default: is_plain = false;
    }
  }
  return !fields.is_broken;
}

bool take_index(const Fields& fields, std::uint32_t& into) {
  into = static_cast<std::uint32_t>(fields.value);
  return fields.kind == kVarint && fields.value <= 0xffffffffu;
}

bool read_dense(const Extent& content, PushHeader::Dense& dense, bool& is_plain) {
  Fields fields(content.data, content.size);
  while (fields.next()) {
    bool fits = fields.kind == kVarint;
    switch (fields.number) {
      case 1: fits = take_index(fields, dense.format); break;
      case 2: dense.is_sparse = fields.value != 0; break;
      default: fits = true; is_plain = false;
    }
    if (!fits) return false;
  }
  return !fields.is_broken;
}

bool read_table(const Extent& content, PushHeader::Table& table, bool& is_plain) {
  Fields fields(content.data, content.size);
  while (fields.next()) {
    bool fits = fields.kind == kVarint;
    switch (fields.number) {
      case 1:
        table.table = static_cast<std::uint32_t>(fields.value);
        fits = fits && fields.value <= 0xffffffffu;
        break;
      case 2: fits = fields.kind == kFixed64 && fields.doubles([&](double lr) { table.lr = lr; }); break;
      case 3: table.has_counts = fields.value != 0; break;
      case 4: table.has_clicks = fields.value != 0; break;
      case 5: fits = take_index(fields, table.format); break;
      case 6: fits = take_index(fields, table.row_format); break;
      default: fits = true; is_plain = false;
    }
    if (!fits) return false;
  }
  return !fields.is_broken;
}

bool take_indices(Fields& fields, std::vector<std::uint32_t>& into) {
  bool fits = true;
  const bool read = fields.numbers([&](std::uint64_t one) {
    fits = fits && one <= 0xffffffffu;
    into.push_back(static_cast<std::uint32_t>(one));
  });
  return read && fits;
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value > 0x7f; value >>= 7) ++size;
  return size;
}

// A field without meaning takes 2 bytes at least, so 1 byte is made up by a whole turn more.
std::size_t padding_before(std::size_t end) {
  const std::size_t gap = (kAlignment - end % kAlignment) % kAlignment;
  return gap == 1 ? gap + kAlignment : gap;
}

}  // namespace

bool read_message(const std::byte* data, std::size_t size, Message& message, std::string* why) {
  Fields fields(data, size);
  std::size_t num_fields = 0;
  while (fields.next()) {
    if (++num_fields > kMaxFields) {
      if (why != nullptr) *why = "more than " + std::to_string(kMaxFields) + " fields";
      return false;
    }
    if (fields.number == 2 && fields.kind == kBytes) {
      message.tensors.push_back(fields.content);
    } else if (fields.number == 1 && fields.kind == kBytes) {  // one behind the other, several are one
      message.header.append(reinterpret_cast<const char*>(fields.content.data), fields.content.size);
    }
  }
  if (why != nullptr) *why = fields.why;
  return !fields.is_broken;
}

bool read_header(const std::string& bytes, MeetHeader& header) {
  Fields fields(bytes_of(bytes), bytes.size());
  bool is_plain = true;
  while (fields.next()) {
    if (fields.number != 1) continue;
    if (fields.kind != kBytes || !read_caller(fields.content, header.caller, is_plain)) return false;
  }
  return !fields.is_broken;
}

bool read_header(const std::string& bytes, PullHeader& header) {
  Fields fields(bytes_of(bytes), bytes.size());
  while (fields.next()) {
    bool fits = fields.kind == kVarint;
    switch (fields.number) {
      case 1: fits = fields.kind == kBytes && read_caller(fields.content, header.caller, header.is_plain); break;
      case 2: header.version = fields.value; break;
      case 3: fits = take_indices(fields, header.tables); break;
      case 4: header.dense = fields.value != 0; break;
      case 5: header.timeout_ms = static_cast<std::uint32_t>(fields.value); break;
      case 6: header.kept = fields.value != 0; break;
      case 7: fits = take_indices(fields, header.only_read); break;
      case 8: fits = take_indices(fields, header.formats); break;
      case 9: fits = take_index(fields, header.dense_format); break;
      default: fits = true; header.is_plain = false;
    }
    if (!fits) return false;
  }
  return !fields.is_broken;
}

bool read_header(const std::string& bytes, PushHeader& header) {
  Fields fields(bytes_of(bytes), bytes.size());
  while (fields.next()) {
    bool fits = fields.kind == kVarint;
    switch (fields.number) {
      case 1: fits = fields.kind == kBytes && read_caller(fields.content, header.caller, header.is_plain); break;
      case 2: header.sequence = fields.value; break;
      case 3: header.step = fields.value; break;
      case 4: header.pulled_version = fields.value; break;
      case 5:
        header.tables.emplace_back();
        fits = fields.kind == kBytes && read_table(fields.content, header.tables.back(), header.is_plain);
        break;
      case 6: fits = fields.doubles([&](double lr) { header.dense_lrs.push_back(lr); }); break;
      case 7: header.want_dense = fields.value != 0; break;
      case 8: header.is_delta = fields.value != 0; break;
      case 9: header.want_rows = fields.value != 0; break;
      case 10: fits = take_indices(fields, header.pull_tables); break;
      case 11: header.timeout_ms = static_cast<std::uint32_t>(fields.value); break;
      case 12: fits = take_indices(fields, header.dense_groups); break;
      case 13: fits = take_indices(fields, header.pull_only_read); break;
      case 14:  // the position of the data, which only Python reads
        fits = fields.kind == kBytes;
        break;
      case 15:  // so many steps, likewise
        break;
      case 16: header.is_pass = fields.value != 0; break;
      case 17:
        header.dense.emplace_back();
        fits = fields.kind == kBytes && read_dense(fields.content, header.dense.back(), header.is_plain);
        break;
      case 18: fits = take_indices(fields, header.pull_formats); break;
      case 19: fits = take_index(fields, header.dense_format); break;
      case 20:  // whose pushes the step has, likewise
        fits = fields.kind == kVarint || fields.kind == kBytes;
        break;
      case 22: fits = take_indices(fields, header.absent); break;
      case 23:  // of journals, likewise
        fits = fields.kind == kFixed64;
        break;
      default: fits = true; header.is_plain = false;
    }
    if (!fits) return false;
  }
  return !fields.is_broken;
}

std::string pull_reply_header(std::uint64_t version) {
  std::string header;
  if (version != 0) {
    header.push_back(1 << 3 | kVarint);
    put_varint(header, version);
  }
  return header;
}

Layout::Layout(std::size_t header_size, const std::vector<std::size_t>& tensor_sizes)
    : header_size_(header_size), sizes_(tensor_sizes), begins_(tensor_sizes.size()) {
  std::size_t end = 1 + varint_size(header_size) + header_size;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const std::size_t start = 1 + varint_size(sizes_[i]);
    end += padding_before(end + start) + start;
    begins_[i] = end;
    end += sizes_[i];
  }
  size_ = end;
}

void Layout::write(std::byte* to, const std::string& header) const {
  std::string text;
  text.push_back(kHeaderTag);
  put_varint(text, header_size_);
  text += header;
  std::memcpy(to, text.data(), text.size());
  std::size_t end = text.size();
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    text.clear();
    const std::size_t gap = begins_[i] - end - 1 - varint_size(sizes_[i]);
    if (gap != 0) {
      text.push_back(kPaddingTag);
      text.push_back(static_cast<char>(gap - 2));
      text.append(gap - 2, '\0');
    }
    text.push_back(kTensorTag);
    put_varint(text, sizes_[i]);
    std::memcpy(to + end, text.data(), text.size());
    end = begins_[i] + sizes_[i];
  }
}

}  // namespace fleet::plane
