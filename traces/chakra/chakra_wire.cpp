#include "traces/chakra/chakra_wire.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/chakra/wire_cursor.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostMessageBytes = std::size_t{16} << 20;
constexpr std::size_t kMostNodes = 10'000'000;
constexpr std::uint64_t kMostMicros = 366ull * 24 * 3600 * 1'000'000;
constexpr const char* kOtherNumbers =
    "not a Chakra trace of version 0.0.4 to 1 (version 0.0.1 numbers its fields differently)";

/// Field numbers of a Node; NodeType.
enum NodeField : std::uint32_t {
  kId = 1, kName = 2, kType = 3, kControlDeps = 4, kDataDeps = 5, kStart = 6, kDuration = 7,
  kInputs = 8, kOutputs = 9, kAttribute = 10
};
enum NodeType : std::uint64_t { kInvalid, kMetadata, kMemLoad, kMemStore, kComp, kSend, kRecv,
                                kColl, kNodeTypes };

/// Attributes that matter, in the order of kAttributeNames.
enum Attribute : std::size_t {
  kCpuOp, kNumOps, kTensorSize, kCommType, kCommSize, kCommSrc, kCommDst, kCommTag, kPgName,
  kNanos, kAttributes
};
constexpr std::array<std::string_view, kAttributes> kAttributeNames{
    "is_cpu_op", "num_ops",  "tensor_size", "comm_type", "comm_size",
    "comm_src",  "comm_dst", "comm_tag",    "pg_name",   "duration_nanos"};

/// The value of an attribute as it stands in the file.
struct AttributeValue {
  std::uint32_t field = 0;  ///< of the oneof; 0: none
  std::uint64_t word = 0;   ///< varint or fixed bits
  std::string_view block;
};

struct NodeText {
  std::uint64_t id = 0, type = 0, duration = 0;
  std::string_view inputs;
  std::array<AttributeValue, kAttributes> attributes;
};

class RankParser {
 public:
  RankParser(const std::string& file, std::string_view bytes, ParsedRank& into)
      : file_(file), bytes_(bytes), into_(into) {}

  void parse();

 private:
  [[noreturn]] void fail(const char* at, const std::string& message) const {
    const auto offset = at - bytes_.data();
    throw Error(SourcePlace{file_, 1, static_cast<int>(offset) + 1, ""},
                fmt::format("byte {}: {}", offset, message));
  }
  [[noreturn]] void fail_node(const std::string& message) const {
    fail(node_begin_, fmt::format("node {}: {}", node_.id, message));
  }

  std::string_view next_message(WireCursor& stream) const;
  void metadata(std::string_view message);
  void check_version(std::string_view text) const;
  void node(std::string_view message);
  void node_field(WireCursor& cursor, std::uint32_t tag);
  void dependencies(WireCursor& cursor, std::uint32_t type, std::vector<std::uint64_t>& into);
  std::uint32_t close_dependencies(std::size_t begin);
  void make_ids_relative();
  void attribute(std::string_view message);

  TraceOp operation();
  TraceOp collective(TraceOp op);
  TraceOp point_to_point(TraceOp op, Attribute peer);
  std::optional<std::int64_t> number(Attribute which) const;
  std::uint64_t size(Attribute which) const;
  std::int64_t needed(Attribute which) const;
  std::string group_name() const;
  std::uint32_t group_slot(std::string name);
  std::uint32_t peer_slot(std::uint64_t peer);

  const std::string& file_;
  std::string_view bytes_;
  ParsedRank& into_;
  const char* node_begin_ = nullptr;
  NodeText node_;
  std::vector<std::uint64_t> controls_;  ///< control dependencies of the node
  std::map<std::string, std::uint32_t, std::less<>> group_slots_;
  std::map<std::uint64_t, std::uint32_t> peer_slots_;
};

// ---- container --------------------------------------------------------------------------------

void RankParser::parse() {
  into_.ops.clear();
  into_.after_ids.clear();
  into_.group_names.clear();
  into_.peers.clear();
  into_.tags.clear();
  into_.groups.clear();
  if (bytes_.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    fail(bytes_.data(), "more than 2 GiB for one rank");
  }
  WireCursor stream(bytes_);
  if (stream.done()) fail(stream.at(), "the file is empty: a trace begins with its metadata");
  node_begin_ = stream.at();
  try {
    metadata(next_message(stream));
    while (!stream.done()) {
      node_begin_ = stream.at();
      node_.id = 0;
      node(next_message(stream));
    }
    make_ids_relative();
  } catch (const WireFault& fault) {
    fail(fault.at, fmt::format("{}; {}", fault.what, kOtherNumbers));
  }
}

/// Ranks whose programs differ by where their ids begin run the same program.
void RankParser::make_ids_relative() {
  const auto least = std::min_element(into_.ops.begin(), into_.ops.end(),
                                      [](auto& a, auto& b) { return a.id < b.id; });
  into_.first_id = least == into_.ops.end() ? 0 : least->id;
  for (TraceOp& op : into_.ops) op.id -= into_.first_id;
  for (std::uint64_t& id : into_.after_ids) id -= into_.first_id;
}

std::string_view RankParser::next_message(WireCursor& stream) const {
  const char* const begin = stream.at();
  std::uint64_t size = 0;
  try {
    size = stream.varint();
  } catch (const WireFault&) {
    fail(begin, "the file is cut short within the length of a message");
  }
  if (size > kMostMessageBytes) {
    fail(begin, fmt::format("a message of {} bytes: at most 16 MiB; {}", size, kOtherNumbers));
  }
  if (size > stream.left()) {
    fail(begin, fmt::format("the file is cut short: a message of {} bytes begins here, {} are left",
                            size, stream.left()));
  }
  const std::string_view message(stream.at(), size);
  stream = WireCursor({stream.at() + size, stream.left() - size});
  return message;
}

/// Versions, and schemas as they are written where a version should be: 0.0.4 and later, below 2.
void RankParser::check_version(std::string_view text) const {
  const bool readable = std::all_of(text.begin(), text.end(),
                                    [](unsigned char c) { return c >= 32 && c < 127; });
  if (!readable) fail(node_begin_, kOtherNumbers);
  const std::size_t suffix = text.find("chakra.");
  const std::string_view digits = suffix == std::string_view::npos ? text : text.substr(suffix + 7);
  std::array<unsigned, 3> parts{};
  const char* at = digits.data();
  const char* const end = at + digits.size();
  for (unsigned& part : parts) {
    const auto [stop, error] = std::from_chars(at, end, part);
    if (error != std::errc{}) return;  // a name, such as that of a generator
    at = stop != end && *stop == '.' ? stop + 1 : stop;
  }
  if (parts[0] >= 2 || (parts[0] == 0 && parts[1] == 0 && parts[2] < 4)) {
    fail(node_begin_, fmt::format("Chakra version '{}' is not supported: 0.0.4 to 1 are", text));
  }
}

void RankParser::metadata(std::string_view message) {
  WireCursor cursor(message);
  while (!cursor.done()) {
    const auto tag = static_cast<std::uint32_t>(cursor.varint());
    if (tag == (1 << 3 | 2)) {
      check_version(cursor.block());
    } else if (tag == (2 << 3 | 2)) {
      WireCursor inner(cursor.block());
      std::string_view name;
      while (!inner.done()) {
        const auto key = static_cast<std::uint32_t>(inner.varint());
        if ((key & 7) != 2) {
          inner.skip(key & 7);
          continue;
        }
        const std::string_view text = inner.block();
        if (key >> 3 == 1) name = text;
        if (key >> 3 == 29 && name == "schema") check_version(text);
      }
    } else {
      fail(cursor.at(), fmt::format("the file does not begin with the metadata of a trace: {}",
                                    kOtherNumbers));
    }
  }
}

// ---- a node -----------------------------------------------------------------------------------

void RankParser::node(std::string_view message) {
  node_ = NodeText{};
  controls_.clear();
  const std::size_t deps_before = into_.after_ids.size();
  WireCursor cursor(message);
  while (!cursor.done()) node_field(cursor, static_cast<std::uint32_t>(cursor.varint()));
  if (into_.ops.size() == kMostNodes) fail_node("more than ten million nodes in one rank");
  TraceOp op = operation();
  op.controls = close_dependencies(deps_before);
  op.after_end = static_cast<std::uint32_t>(into_.after_ids.size());
  into_.ops.push_back(op);
}

/// Each dependency once, data before control. Returns how many are control dependencies alone.
std::uint32_t RankParser::close_dependencies(std::size_t begin) {
  std::vector<std::uint64_t>& all = into_.after_ids;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  if (all.end() - first > 1) {
    std::sort(first, all.end());
    all.erase(std::unique(first, all.end()), all.end());
  }
  if (controls_.empty()) return 0;
  std::sort(controls_.begin(), controls_.end());
  controls_.erase(std::unique(controls_.begin(), controls_.end()), controls_.end());
  const std::size_t end = all.size();
  for (const std::uint64_t id : controls_) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = all.begin() + static_cast<std::ptrdiff_t>(end);
    if (!std::binary_search(from, to, id)) all.push_back(id);
  }
  return static_cast<std::uint32_t>(all.size() - end);
}

void RankParser::node_field(WireCursor& cursor, std::uint32_t tag) {
  const std::uint32_t field = tag >> 3, type = tag & 7;
  const auto expect = [&](WireType wanted) {
    if (type == static_cast<std::uint32_t>(wanted)) return;
    fail(cursor.at(), fmt::format("field {} of a node is of another kind than it should: {}",
                                  field, kOtherNumbers));
  };
  switch (field) {
    case kId: expect(WireType::varint); node_.id = cursor.varint(); return;
    case kType: expect(WireType::varint); node_.type = cursor.varint(); return;
    case kDuration: expect(WireType::varint); node_.duration = cursor.varint(); return;
    case kStart: expect(WireType::varint); cursor.varint(); return;
    case kControlDeps: dependencies(cursor, type, controls_); return;
    case kDataDeps: dependencies(cursor, type, into_.after_ids); return;
    case kInputs: expect(WireType::block); node_.inputs = cursor.block(); return;
    case kName:
    case kOutputs: expect(WireType::block); cursor.block(); return;
    case kAttribute: expect(WireType::block); attribute(cursor.block()); return;
    default: cursor.skip(type);
  }
}

void RankParser::dependencies(WireCursor& cursor, std::uint32_t type,
                              std::vector<std::uint64_t>& into) {
  if (type == static_cast<std::uint32_t>(WireType::varint)) {
    into.push_back(cursor.varint());
    return;
  }
  if (type != static_cast<std::uint32_t>(WireType::block)) throw WireFault{cursor.at(), "no ids"};
  WireCursor packed(cursor.block());
  while (!packed.done()) into.push_back(packed.varint());
}

void RankParser::attribute(std::string_view message) {
  WireCursor cursor(message);
  AttributeValue value;
  std::size_t which = kAttributes;
  while (!cursor.done()) {
    const auto tag = static_cast<std::uint32_t>(cursor.varint());
    const std::uint32_t field = tag >> 3, type = tag & 7;
    if (tag == (1 << 3 | 2)) {
      const std::string_view name = cursor.block();
      const auto found = std::find(kAttributeNames.begin(), kAttributeNames.end(), name);
      which = static_cast<std::size_t>(found - kAttributeNames.begin());
      // The name comes first in practice: then the rest of an unknown one is not even looked at.
      if (which == kAttributes && value.field == 0) return;
      continue;
    }
    if (field == 2) {
      cursor.skip(type);
      continue;
    }
    value = {.field = field, .word = 0, .block = {}};
    switch (static_cast<WireType>(type)) {
      case WireType::varint: value.word = cursor.varint(); break;
      case WireType::fixed64: value.word = cursor.fixed<std::uint64_t>(); break;
      case WireType::fixed32: value.word = cursor.fixed<std::uint32_t>(); break;
      case WireType::block: value.block = cursor.block(); break;
      default: throw WireFault{cursor.at(), "no such wire type"};
    }
  }
  if (which < kAttributes) node_.attributes[which] = value;
}

// ---- what a node means --------------------------------------------------------------------------

/// The value in any of the numeric kinds that the oneof has; nothing if the attribute is absent.
std::optional<std::int64_t> RankParser::number(Attribute which) const {
  const AttributeValue& value = node_.attributes[which];
  const auto zigzag = [](std::uint64_t v) {
    return static_cast<std::int64_t>((v >> 1) ^ (~(v & 1) + 1));
  };
  const auto whole = [&](double v) {
    if (!(std::abs(v) < 9e18)) fail_node(fmt::format("{} is no size", kAttributeNames[which]));
    return static_cast<std::int64_t>(v);
  };
  switch (value.field) {
    case 0: return {};
    case 3: return whole(std::bit_cast<double>(value.word));
    case 5: return whole(std::bit_cast<float>(static_cast<std::uint32_t>(value.word)));
    case 7: case 23: return static_cast<std::int32_t>(value.word);
    case 11: case 19: return static_cast<std::uint32_t>(value.word);
    case 9: case 13: case 21: case 25: return static_cast<std::int64_t>(value.word);
    case 15: case 17: return zigzag(value.word);
    case 27: return value.word != 0 ? 1 : 0;
    default:
      fail_node(fmt::format("attribute '{}' must be a number", kAttributeNames[which]));
  }
}

std::uint64_t RankParser::size(Attribute which) const {
  const std::int64_t value = number(which).value_or(0);
  if (value < 0) fail_node(fmt::format("{} is {}: below zero", kAttributeNames[which], value));
  return static_cast<std::uint64_t>(value);
}

std::int64_t RankParser::needed(Attribute which) const {
  const std::optional<std::int64_t> value = number(which);
  if (!value) fail_node(fmt::format("a communication without '{}'", kAttributeNames[which]));
  return *value;
}

TraceOp RankParser::operation() {
  TraceOp op{.id = node_.id};
  if (node_.type >= kNodeTypes) {
    fail_node(fmt::format("node type {} is not known; {}", node_.type, kOtherNumbers));
  }
  if (node_.duration > kMostMicros) fail_node("a duration of more than a year");
  // Nanoseconds are ours: the traces that we write lose nothing to rounding.
  op.duration_ns = number(kNanos) ? size(kNanos) : node_.duration * 1000;
  op.cpu = number(kCpuOp).value_or(0) != 0;
  if (node_.type == kMetadata && !node_.inputs.empty()) {
    WireCursor cursor(node_.inputs);
    while (!cursor.done()) {
      const auto tag = static_cast<std::uint32_t>(cursor.varint());
      if (tag != (1 << 3 | 2)) {
        cursor.skip(tag & 7);
        continue;
      }
      for (NamedGroup& group : groups_in_json(file_, cursor.block())) {
        into_.groups.push_back(std::move(group));
      }
    }
  }
  if (node_.type == kInvalid || node_.type == kMetadata) return op;
  if (op.cpu || node_.type == kComp) {
    op.kind = TraceOpKind::compute;
    op.flop = op.cpu ? 0 : size(kNumOps);
    op.bytes = op.cpu ? 0 : size(kTensorSize);
    return op;
  }
  switch (static_cast<NodeType>(node_.type)) {
    case kColl: return collective(op);
    case kSend: op.kind = TraceOpKind::send; return point_to_point(op, kCommDst);
    case kRecv: op.kind = TraceOpKind::receive; return point_to_point(op, kCommSrc);
    default:
      op.kind = TraceOpKind::memory;
      op.bytes = size(kTensorSize);
      return op;
  }
}

TraceOp RankParser::collective(TraceOp op) {
  const std::int64_t type = needed(kCommType);
  if (type < 0 || type > static_cast<std::int64_t>(ChakraCollective::barrier)) {
    fail_node(fmt::format("comm_type {} is no collective of Chakra", type));
  }
  op.kind = TraceOpKind::collective;
  op.collective = static_cast<ChakraCollective>(type);
  if (op.collective == ChakraCollective::gather || op.collective == ChakraCollective::scatter) {
    fail_node(fmt::format("{} is not supported: a trace does not say which rank is its root",
                          chakra_name(op.collective)));
  }
  op.bytes = op.collective == ChakraCollective::barrier ? 0 : size(kCommSize);
  op.slot = group_slot(group_name());
  return op;
}

TraceOp RankParser::point_to_point(TraceOp op, Attribute peer) {
  const std::int64_t other = needed(peer);
  if (other < 0 || other >= kMostChakraRanks) {
    fail_node(fmt::format("{} is {}: no rank", kAttributeNames[peer], other));
  }
  op.bytes = size(kCommSize);
  op.slot = peer_slot(static_cast<std::uint64_t>(other));
  into_.tags.push_back(number(kCommTag).value_or(0));
  return op;
}

std::string RankParser::group_name() const {
  const AttributeValue& value = node_.attributes[kPgName];
  if (value.field == 29) return std::string(value.block);
  return value.field == 0 ? std::string() : std::to_string(*number(kPgName));
}

std::uint32_t RankParser::group_slot(std::string name) {
  const auto found = group_slots_.find(name);
  if (found != group_slots_.end()) return found->second;
  const auto slot = static_cast<std::uint32_t>(into_.group_names.size());
  into_.group_names.push_back(name);
  group_slots_.emplace(std::move(name), slot);
  return slot;
}

std::uint32_t RankParser::peer_slot(std::uint64_t peer) {
  const auto [entry, fresh] =
      peer_slots_.emplace(peer, static_cast<std::uint32_t>(into_.peers.size()));
  if (fresh) into_.peers.push_back(peer);
  return entry->second;
}

}  // namespace

const char* chakra_name(ChakraCollective collective) {
  constexpr std::array<const char*, 10> kNames{
      "ALL_REDUCE", "REDUCE",     "ALL_GATHER",     "GATHER",               "SCATTER",
      "BROADCAST",  "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"};
  return kNames.at(static_cast<std::size_t>(collective));
}

void parse_chakra_rank(const std::string& file, std::string_view bytes, ParsedRank& into) {
  RankParser(file, bytes, into).parse();
}

}  // namespace orrery
