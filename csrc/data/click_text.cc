#include "data/click_text.h"

#include <charconv>
#include <string>

#include "data/clicks.h"
#include "data/field.h"
#include "data/hash_text.h"

namespace fleet::data {

namespace {

constexpr std::size_t kCodeSize = 8;
constexpr std::size_t kMostLine = 2 + kClickNumbers * 12 + kClickSlots * (kCodeSize + 1) + 1;

}  // namespace

void write_code(std::uint32_t code, char* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < kCodeSize; ++i) out[i] = kDigits[code >> (28 - 4 * i) & 0xf];
}

std::int64_t code_id(std::uint64_t seed, std::uint32_t code) {
  char text[kCodeSize];
  write_code(code, text);
  return hash_text(seed, text, kCodeSize);
}

std::uint64_t click_slot_seed(std::size_t slot) {
  const std::string name = "C" + std::to_string(slot + 1);
  return slot_seed(name.data(), name.size());
}

float dense_number(std::int32_t number) { return Logarithm::of(number); }

std::string Clicks::text(std::uint64_t first, std::size_t count) const {
  std::string made(count * kMostLine, '\0');
  char* out = made.data();
  for (std::size_t i = 0; i < count; ++i) {
    const Click click = sample(first + i);
    *out++ = click.is_click ? '1' : '0';
    for (std::size_t j = 0; j < kClickNumbers; ++j) {
      *out++ = '\t';
      if (!click.is_gap[j]) out = std::to_chars(out, out + 11, click.numbers[j]).ptr;
    }
    for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
      *out++ = '\t';
      if (click.ranks[slot] == Click::kGap) continue;
      write_code(click_code(slot, click.ranks[slot]), out);
      out += kCodeSize;
    }
    *out++ = '\n';
  }
  made.resize(static_cast<std::size_t>(out - made.data()));
  return made;
}

ClickColumns Clicks::columns(std::uint64_t first, std::size_t count) const {
  ClickColumns made;
  made.label.reserve(count);
  for (std::size_t c = 0; c < kClickColumns; ++c) {
    ClickColumns::Column& column = made.columns[c];
    column.valid.assign((count + 7) / 8, 0);
    if (c < kClickNumbers) {
      column.numbers.reserve(count);
    } else {
      column.offsets.reserve(count + 1);
      column.offsets.push_back(0);
      column.text.reserve(count * kCodeSize);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Click click = sample(first + i);
    const auto bit = static_cast<std::uint8_t>(1u << (i % 8));
    made.label.push_back(click.is_click ? 1 : 0);
    for (std::size_t j = 0; j < kClickNumbers; ++j) {
      made.columns[j].numbers.push_back(click.numbers[j]);
      if (!click.is_gap[j]) made.columns[j].valid[i / 8] |= bit;
    }
    for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
      ClickColumns::Column& column = made.columns[kClickNumbers + slot];
      if (click.ranks[slot] != Click::kGap) {
        char text[kCodeSize];
        write_code(click_code(slot, click.ranks[slot]), text);
        column.text.insert(column.text.end(), text, text + kCodeSize);
        column.valid[i / 8] |= bit;
      }
      column.offsets.push_back(static_cast<std::int32_t>(column.text.size()));
    }
  }
  return made;
}

}  // namespace fleet::data
