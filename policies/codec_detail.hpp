// Helpers that codec.cpp and codec_decisions.cpp share; nobody else includes this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/policy.hpp"

namespace orrery::codec_detail {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorKind::bad_input, message);
}

template <class Enum>
std::uint32_t number_of(Enum value) {
  return static_cast<std::uint32_t>(value);
}

/// An enumerator from its number on the wire; `last` is the largest that exists.
template <class Enum>
Enum to_enum(std::uint32_t number, Enum last, const char* what) {
  if (number > number_of(last)) refuse(fmt::format("{} {} is unknown", what, number));
  return static_cast<Enum>(number);
}

template <class IdType, class Repeated>
void encode_ids(const std::vector<IdType>& ids, Repeated* out) {
  out->Reserve(static_cast<int>(ids.size()));
  for (const IdType id : ids) out->Add(id.value);
}

template <class IdType, class Repeated>
std::vector<IdType> decode_ids(const Repeated& values) {
  std::vector<IdType> ids;
  ids.reserve(static_cast<std::size_t>(values.size()));
  for (const auto value : values) ids.push_back(IdType{value});
  return ids;
}

inline CollectiveKind collective_kind(std::uint32_t number) {
  return to_enum(number, CollectiveKind::send_receive, "collective");
}
inline CollectiveAlgorithm collective_algorithm(std::uint32_t number) {
  return to_enum(number, CollectiveAlgorithm::halving_doubling, "collective algorithm");
}

}  // namespace orrery::codec_detail
