// One node of a Chakra trace as it stands in the file: its fields and those attributes that matter,
// not yet what they mean. Read by traces/chakra/chakra_wire; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/chakra/wire_cursor.hpp"

namespace orrery {

inline constexpr const char* kOtherChakraNumbers =
    "not a Chakra trace of version 0.0.4 to 1 (version 0.0.1 numbers its fields differently)";

/// The bytes of a rank, for messages that name their place.
struct ChakraFile {
  const std::string& name;
  std::string_view bytes;
  /// Throws bad_input with `at`, within the bytes, as column.
  [[noreturn]] void fail(const char* at, const std::string& message) const;
};

class ChakraNode {
 public:
  /// NodeType of the schema.
  enum Type : std::uint64_t {
    kInvalid,
    kMetadata,
    kMemLoad,
    kMemStore,
    kComp,
    kSend,
    kRecv,
    kColl,
    kTypes
  };
  /// In the order of their names in chakra_node.cpp.
  enum Attribute : std::size_t {
    kCpuOp,
    kNumOps,
    kTensorSize,
    kCommType,
    kCommSize,
    kCommSrc,
    kCommDst,
    kCommTag,
    kPgName,
    kNanos,
    kAttributes
  };

  explicit ChakraNode(const ChakraFile& file) : file_(file) {}
  /// From `message`, which stands at `begin`; what it waits for by its data is added to `data`.
  /// Throws WireFault, or bad_input.
  void read(const char* begin, std::string_view message, std::vector<std::uint64_t>& data);

  std::uint64_t id() const { return text_.id; }
  std::uint64_t type() const { return text_.type; }
  std::uint64_t duration() const { return text_.duration; }  ///< microseconds
  std::string_view inputs() const { return text_.inputs; }
  /// What it waits for otherwise; may be changed.
  std::vector<std::uint64_t>& controls() { return controls_; }

  // All throw bad_input on what is no number.
  /// Nothing if the attribute is absent.
  std::optional<std::int64_t> number(Attribute which) const;
  std::uint64_t size(Attribute which) const;   ///< 0 if it is absent; not below zero
  std::int64_t needed(Attribute which) const;  ///< of a communication
  std::string group_name() const;
  static std::string_view name(Attribute which);
  /// Throws bad_input that names the node.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  /// The value of an attribute as it stands in the file.
  struct Value {
    std::uint32_t field = 0;  ///< of the oneof; 0: none
    std::uint64_t word = 0;   ///< varint or fixed bits
    std::string_view block;
  };
  struct Text {
    std::uint64_t id = 0, type = 0, duration = 0;
    std::string_view inputs;
    std::array<Value, kAttributes> attributes;
  };
  void field(WireCursor& cursor, std::uint32_t tag, std::vector<std::uint64_t>& data);
  void attribute(std::string_view message);

  const ChakraFile& file_;
  const char* begin_ = nullptr;
  Text text_;
  std::vector<std::uint64_t> controls_;
};

}  // namespace orrery
