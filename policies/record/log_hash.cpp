#include "policies/record/log_hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/processor/vector_clones.hpp"
#include "policies/record/encoding.hpp"

// Compiled with -O3, so that the lanes become vectors.

namespace orrery {
namespace {

constexpr std::size_t kLanes = 8, kWord = sizeof(std::uint64_t);
using Lanes = std::array<std::uint64_t, kLanes>;

/// Adds a word to a lane: a bijection of the lane for each word, and of the word for each lane.
inline std::uint64_t mix(std::uint64_t lane, const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  const std::uint64_t product = (lane ^ word) * 0x9E3779B97F4A7C15ull;
  return product ^ (product >> 29);
}

/// Adds words; word i enters lane i % 8.
ORRERY_VECTORS void add_words(Lanes& lanes, std::span<const std::byte> bytes) {
  Lanes now = lanes;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size() / kWord;
  for (; left >= kLanes; left -= kLanes, at += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) now[lane] = mix(now[lane], at + lane * kWord);
  }
  for (std::size_t lane = 0; lane < left; ++lane) now[lane] = mix(now[lane], at + lane * kWord);
  lanes = now;
}

void add_word(Lanes& lanes, std::uint64_t word) {
  add_words(lanes, std::as_bytes(std::span(&word, 1)));
}

}  // namespace

std::string column_digest(const SampleColumn& column) {
  Lanes lanes{1, 2, 3, 4, 5, 6, 7, 8};
  if (!column.values.empty()) {  // an empty column has no ages and origins in a log
    add_words(lanes, std::as_bytes(std::span(column.values)));
    add_words(lanes, std::as_bytes(std::span(column.ages)));
    for (const Origin origin : column.origins) add_word(lanes, static_cast<std::uint64_t>(origin));
    add_word(lanes, column.values.size());
    add_word(lanes, column.ages.size());
    add_word(lanes, column.origins.size());
  }
  return {reinterpret_cast<const char*>(lanes.data()), sizeof lanes};
}

void LogHash::add_stored(const LogRecord& record) {
  LogRecord without = record;
  for (SamplesRead& read : *without.mutable_call()->mutable_read()) {
    if (read.column() == 0) continue;
    add_column(decode_exactly(read.values()));
    read.mutable_values()->Clear();
  }
  add_record(without.SerializeAsString());
}

}  // namespace orrery
