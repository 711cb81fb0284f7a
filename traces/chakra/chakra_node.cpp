#include "traces/chakra/chakra_node.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Field numbers of a Node.
enum NodeField : std::uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kControlDeps = 4,
  kDataDeps = 5,
  kStart = 6,
  kDuration = 7,
  kInputs = 8,
  kOutputs = 9,
  kAttribute = 10
};
constexpr std::array<std::string_view, ChakraNode::kAttributes> kAttributeNames{
    "is_cpu_op", "num_ops",  "tensor_size", "comm_type", "comm_size",
    "comm_src",  "comm_dst", "comm_tag",    "pg_name",   "duration_nanos"};

void dependencies(WireCursor& cursor, std::uint32_t type, std::vector<std::uint64_t>& into) {
  if (type == static_cast<std::uint32_t>(WireType::varint)) {
    into.push_back(cursor.varint());
    return;
  }
  if (type != static_cast<std::uint32_t>(WireType::block)) throw WireFault{cursor.at(), "no ids"};
  WireCursor packed(cursor.read_block());
  while (!packed.is_done()) into.push_back(packed.varint());
}

}  // namespace

void ChakraFile::fail_at(const char* at, const std::string& message) const {
  const auto offset = at - bytes.data();
  throw Error(SourcePlace{name, 1, static_cast<int>(offset) + 1, ""},
              fmt::format("byte {}: {}", offset, message));
}

std::string_view ChakraNode::name(Attribute which) { return kAttributeNames[which]; }

void ChakraNode::fail_at_node(const std::string& message) const {
  file_.fail_at(begin_, fmt::format("node {}: {}", text_.id, message));
}

void ChakraNode::read(const char* begin, std::string_view message,
                      std::vector<std::uint64_t>& data) {
  begin_ = begin;
  text_ = Text{};
  controls_.clear();
  WireCursor cursor(message);
  while (!cursor.is_done()) field(cursor, static_cast<std::uint32_t>(cursor.varint()), data);
}

void ChakraNode::field(WireCursor& cursor, std::uint32_t tag, std::vector<std::uint64_t>& data) {
  const std::uint32_t number = tag >> 3, type = tag & 7;
  const auto expect = [&](WireType wanted) {
    if (type == static_cast<std::uint32_t>(wanted)) return;
    file_.fail_at(cursor.at(),
                  fmt::format("field {} of a node has an unexpected type: {}", number,
                              kOtherChakraNumbers));
  };
  switch (number) {
    case kId:
      expect(WireType::varint);
      text_.id = cursor.varint();
      return;
    case kType:
      expect(WireType::varint);
      text_.type = cursor.varint();
      return;
    case kDuration:
      expect(WireType::varint);
      text_.duration = cursor.varint();
      return;
    case kStart:
      expect(WireType::varint);
      cursor.varint();
      return;
    case kControlDeps: dependencies(cursor, type, controls_); return;
    case kDataDeps: dependencies(cursor, type, data); return;
    case kInputs:
      expect(WireType::block);
      text_.inputs = cursor.read_block();
      return;
    case kName:
    case kOutputs:
      expect(WireType::block);
      cursor.read_block();
      return;
    case kAttribute:
      expect(WireType::block);
      attribute(cursor.read_block());
      return;
    default: cursor.skip_field(type);
  }
}

void ChakraNode::attribute(std::string_view message) {
  WireCursor cursor(message);
  Value value;
  std::size_t which = kAttributes;
  while (!cursor.is_done()) {
    const auto tag = static_cast<std::uint32_t>(cursor.varint());
    const std::uint32_t field = tag >> 3, type = tag & 7;
    if (tag == (1 << 3 | 2)) {
      const std::string_view name = cursor.read_block();
      const auto found = std::find(kAttributeNames.begin(), kAttributeNames.end(), name);
      which = static_cast<std::size_t>(found - kAttributeNames.begin());
      // Writers put the name first, so that the rest of an unknown attribute need not be read.
      if (which == kAttributes && value.field == 0) return;
      continue;
    }
    if (field == 2) {
      cursor.skip_field(type);
      continue;
    }
    value = {.field = field, .word = 0, .block = {}};
    switch (static_cast<WireType>(type)) {
      case WireType::varint: value.word = cursor.varint(); break;
      case WireType::fixed64: value.word = cursor.fixed_word<std::uint64_t>(); break;
      case WireType::fixed32: value.word = cursor.fixed_word<std::uint32_t>(); break;
      case WireType::block: value.block = cursor.read_block(); break;
      default: throw WireFault{cursor.at(), "no such wire type"};
    }
  }
  if (which < kAttributes) text_.attributes[which] = value;
}

// The cases are the field numbers of the oneof's numeric types.
std::optional<std::int64_t> ChakraNode::number(Attribute which) const {
  const Value& value = text_.attributes[which];
  const auto zigzag = [](std::uint64_t v) {
    return static_cast<std::int64_t>((v >> 1) ^ (~(v & 1) + 1));
  };
  const auto whole = [&](double v) {
    if (!(std::abs(v) < 9e18)) fail_at_node(fmt::format("{} is not a valid size", name(which)));
    return static_cast<std::int64_t>(v);
  };
  switch (value.field) {
    case 0: return {};
    case 3: return whole(std::bit_cast<double>(value.word));
    case 5: return whole(std::bit_cast<float>(static_cast<std::uint32_t>(value.word)));
    case 7:
    case 23: return static_cast<std::int32_t>(value.word);
    case 11:
    case 19: return static_cast<std::uint32_t>(value.word);
    case 9:
    case 13:
    case 21:
    case 25: return static_cast<std::int64_t>(value.word);
    case 15:
    case 17: return zigzag(value.word);
    case 27: return value.word != 0 ? 1 : 0;
    default: fail_at_node(fmt::format("attribute '{}' must be a number", name(which)));
  }
}

std::uint64_t ChakraNode::size(Attribute which) const {
  const std::int64_t value = number(which).value_or(0);
  if (value < 0) fail_at_node(fmt::format("{} is {}: below zero", name(which), value));
  return static_cast<std::uint64_t>(value);
}

std::int64_t ChakraNode::required_value(Attribute which) const {
  const std::optional<std::int64_t> value = number(which);
  if (!value) fail_at_node(fmt::format("a communication without '{}'", name(which)));
  return *value;
}

std::string ChakraNode::group_name() const {
  const Value& value = text_.attributes[kPgName];
  if (value.field == 29) return std::string(value.block);
  return value.field == 0 ? std::string() : std::to_string(*number(kPgName));
}

}  // namespace orrery
