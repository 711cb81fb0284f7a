// Node of a Chakra trace as its file contains it: fields and relevant attributes, without
// interpretation. Read by traces/chakra/chakra_wire; one thread.
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

/// End of messages about files of other versions.
inline constexpr const char* kOtherChakraNumbers =
    "not a Chakra trace of version 0.0.4 to 1 (version 0.0.1 numbers its fields differently)";

/// Bytes of a rank's file, for messages with their place.
struct ChakraFile {
  const std::string& name;
  std::string_view bytes;
  /// Throws bad_input with `at`, within the bytes, as column.
  [[noreturn]] void fail_at(const char* at, const std::string& message) const;
};

/// Node that was read last. Its texts point into the file's bytes, which must outlive it.
class ChakraNode {
 public:
  /// Values of NodeType in the schema.
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
  /// Relevant attributes, in the order of their names in chakra_node.cpp.
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
  /// Reads the node from `message` in place of the previous one; appends its data dependencies to
  /// `data`. `begin`: place of the node in the file, for messages. Absent fields are 0 or empty.
  /// Throws WireFault for invalid bytes, bad_input for a field of another type than in the schema.
  void read(const char* begin, std::string_view message, std::vector<std::uint64_t>& data);

  std::uint64_t id() const { return text_.id; }
  std::uint64_t type() const { return text_.type; }
  std::uint64_t duration() const { return text_.duration; }  ///< microseconds
  /// Returns the undecoded field `inputs`; empty if absent. Points into the file's bytes.
  std::string_view inputs() const { return text_.inputs; }
  /// Returns the ids of the control dependencies; the caller may change the list.
  std::vector<std::uint64_t>& controls() { return controls_; }

  // The getters of attributes throw bad_input for a value that is not a number.

  /// Returns the value of an attribute of any numeric type; nothing if the attribute is absent.
  std::optional<std::int64_t> number(Attribute which) const;
  /// Returns the value of an attribute, or 0 if absent. Throws bad_input too for a negative value.
  std::uint64_t size(Attribute which) const;
  /// Returns the value of an attribute of a communication. Throws bad_input too if absent.
  std::int64_t required_value(Attribute which) const;
  /// Returns the name of the communicator, which may be a number; empty if absent.
  std::string group_name() const;
  /// Returns the attribute's name in the file, for example "comm_size".
  static std::string_view name(Attribute which);
  /// Throws bad_input with the node's place and id.
  [[noreturn]] void fail_at_node(const std::string& message) const;

 private:
  /// Undecoded value of an attribute.
  struct Value {
    std::uint32_t field = 0;  ///< field of the oneof; 0: none
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
