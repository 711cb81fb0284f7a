#include "traces/chakra/chakra_wire.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/chakra/chakra_node.hpp"
#include "traces/chakra/wire_cursor.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostMessageBytes = std::size_t{16} << 20;
constexpr std::size_t kMostNodes = 10'000'000;
constexpr std::uint64_t kMostMicros = 366ull * 24 * 3600 * 1'000'000;

/// Parser of one file.
class RankParser {
 public:
  RankParser(const std::string& file, std::string_view bytes, ParsedRank& into)
      : file_{file, bytes}, into_(into), node_(file_) {}

  void parse();

 private:
  [[noreturn]] void fail(const char* at, const std::string& message) const {
    file_.fail_at(at, message);
  }

  std::string_view next_message(WireCursor& stream) const;
  void metadata(std::string_view message);
  void check_version(std::string_view text) const;
  void node(std::string_view message);
  std::uint32_t close_dependencies(std::size_t begin);
  void make_ids_relative();

  TraceOp operation();
  TraceOp collective(TraceOp op);
  TraceOp point_to_point(TraceOp op, ChakraNode::Attribute peer);
  std::uint32_t group_slot(std::string name);
  std::uint32_t peer_slot(std::uint64_t peer);

  const ChakraFile file_;
  ParsedRank& into_;
  const char* node_begin_ = nullptr;
  ChakraNode node_;
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
  if (file_.bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    fail(file_.bytes.data(), "more than 2 GiB for one rank");
  }
  WireCursor stream(file_.bytes);
  if (stream.is_done()) fail(stream.at(), "the file is empty: a trace begins with its metadata");
  node_begin_ = stream.at();
  try {
    metadata(next_message(stream));
    while (!stream.is_done()) {
      node_begin_ = stream.at();
      node(next_message(stream));
    }
    make_ids_relative();
  } catch (const WireFault& fault) {
    fail(fault.at, fmt::format("{}; {}", fault.what, kOtherChakraNumbers));
  }
}

/// Subtracts the smallest id, so that ranks whose ids only begin at another number run the same
/// program.
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
  } catch (const WireFault& fault) {
    fail(begin, fmt::format("expected the length of a message: {}", fault.what));
  }
  if (size > kMostMessageBytes) {
    fail(begin,
         fmt::format("a message of {} bytes: at most 16 MiB; {}", size, kOtherChakraNumbers));
  }
  if (size > stream.bytes_left()) {
    fail(begin, fmt::format("the file is cut short: a message of {} bytes begins here, {} are left",
                            size, stream.bytes_left()));
  }
  const std::string_view message(stream.at(), size);
  stream = WireCursor({stream.at() + size, stream.bytes_left() - size});
  return message;
}

/// Throws bad_input for a version below 0.0.4 or from 2 on. Some writers put a schema's name in
/// place of the version ("...chakra.0.0.4"); other names are accepted.
void RankParser::check_version(std::string_view text) const {
  const bool readable =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 32 && c < 127; });
  if (!readable) fail(node_begin_, kOtherChakraNumbers);
  const std::size_t suffix = text.find("chakra.");
  const std::string_view digits = suffix == std::string_view::npos ? text : text.substr(suffix + 7);
  std::array<unsigned, 3> parts{};
  const char* at = digits.data();
  const char* const end = at + digits.size();
  for (unsigned& part : parts) {
    const auto [stop, error] = std::from_chars(at, end, part);
    if (error != std::errc{}) return;  // a name, for example of a generator
    at = stop != end && *stop == '.' ? stop + 1 : stop;
  }
  if (parts[0] >= 2 || (parts[0] == 0 && parts[1] == 0 && parts[2] < 4)) {
    fail(node_begin_, fmt::format("Chakra version '{}' is not supported: 0.0.4 to 1 are", text));
  }
}

void RankParser::metadata(std::string_view message) {
  WireCursor cursor(message);
  while (!cursor.is_done()) {
    const auto tag = static_cast<std::uint32_t>(cursor.varint());
    if (tag == (1 << 3 | 2)) {
      check_version(cursor.read_block());
    } else if (tag == (2 << 3 | 2)) {
      WireCursor inner(cursor.read_block());
      std::string_view name;
      while (!inner.is_done()) {
        const auto key = static_cast<std::uint32_t>(inner.varint());
        if ((key & 7) != 2) {
          inner.skip_field(key & 7);
          continue;
        }
        const std::string_view text = inner.read_block();
        if (key >> 3 == 1) name = text;
        if (key >> 3 == 29 && name == "schema") check_version(text);
      }
    } else {
      fail(cursor.at(), fmt::format("the file does not begin with the metadata of a trace: {}",
                                    kOtherChakraNumbers));
    }
  }
}

// ---- a node -----------------------------------------------------------------------------------

void RankParser::node(std::string_view message) {
  const std::size_t deps_before = into_.after_ids.size();
  node_.read(node_begin_, message, into_.after_ids);
  if (into_.ops.size() == kMostNodes) node_.fail_at_node("more than ten million nodes in one rank");
  TraceOp op = operation();
  op.controls = close_dependencies(deps_before);
  op.after_end = static_cast<std::uint32_t>(into_.after_ids.size());
  into_.ops.push_back(op);
}

/// Sorts the node's dependencies, data before control, and removes repetitions. Returns the number
/// of dependencies that are only control dependencies.
std::uint32_t RankParser::close_dependencies(std::size_t begin) {
  std::vector<std::uint64_t>& all = into_.after_ids;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  if (all.end() - first > 1) {
    std::sort(first, all.end());
    all.erase(std::unique(first, all.end()), all.end());
  }
  std::vector<std::uint64_t>& controls = node_.controls();
  if (controls.empty()) return 0;
  std::sort(controls.begin(), controls.end());
  controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
  const std::size_t end = all.size();
  for (const std::uint64_t id : controls) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = all.begin() + static_cast<std::ptrdiff_t>(end);
    if (!std::binary_search(from, to, id)) all.push_back(id);
  }
  return static_cast<std::uint32_t>(all.size() - end);
}

// ---- interpretation of a node -------------------------------------------------------------------

TraceOp RankParser::operation() {
  TraceOp op{.id = node_.id()};
  if (node_.type() >= ChakraNode::kTypes) {
    node_.fail_at_node(
        fmt::format("node type {} is not known; {}", node_.type(), kOtherChakraNumbers));
  }
  if (node_.duration() > kMostMicros) node_.fail_at_node("a duration of more than a year");
  // duration_nanos is Orrery's own attribute, so that exported traces lose nothing to rounding.
  op.duration_ns =
      node_.number(ChakraNode::kNanos) ? node_.size(ChakraNode::kNanos) : node_.duration() * 1000;
  op.cpu = node_.number(ChakraNode::kCpuOp).value_or(0) != 0;
  if (node_.type() == ChakraNode::kMetadata && !node_.inputs().empty()) {
    WireCursor cursor(node_.inputs());
    while (!cursor.is_done()) {
      const auto tag = static_cast<std::uint32_t>(cursor.varint());
      if (tag != (1 << 3 | 2)) {
        cursor.skip_field(tag & 7);
        continue;
      }
      for (NamedGroup& group : groups_in_json(file_.name, cursor.read_block())) {
        into_.groups.push_back(std::move(group));
      }
    }
  }
  if (node_.type() == ChakraNode::kInvalid || node_.type() == ChakraNode::kMetadata) return op;
  if (op.cpu || node_.type() == ChakraNode::kComp) {
    op.kind = TraceOpKind::compute;
    op.flop = op.cpu ? 0 : node_.size(ChakraNode::kNumOps);
    op.bytes = op.cpu ? 0 : node_.size(ChakraNode::kTensorSize);
    return op;
  }
  switch (static_cast<ChakraNode::Type>(node_.type())) {
    case ChakraNode::kColl: return collective(op);
    case ChakraNode::kSend:
      op.kind = TraceOpKind::send;
      return point_to_point(op, ChakraNode::kCommDst);
    case ChakraNode::kRecv:
      op.kind = TraceOpKind::receive;
      return point_to_point(op, ChakraNode::kCommSrc);
    default:
      op.kind = TraceOpKind::memory;
      op.bytes = node_.size(ChakraNode::kTensorSize);
      return op;
  }
}

TraceOp RankParser::collective(TraceOp op) {
  const std::int64_t type = node_.required_value(ChakraNode::kCommType);
  if (type < 0 || type > static_cast<std::int64_t>(ChakraCollective::barrier)) {
    node_.fail_at_node(fmt::format("comm_type {} is no collective of Chakra", type));
  }
  op.kind = TraceOpKind::collective;
  op.collective = static_cast<ChakraCollective>(type);
  if (op.collective == ChakraCollective::gather || op.collective == ChakraCollective::scatter) {
    node_.fail_at_node(
        fmt::format("{} is not supported: a trace does not say which rank is its root",
                    chakra_name(op.collective)));
  }
  op.bytes = op.collective == ChakraCollective::barrier ? 0 : node_.size(ChakraNode::kCommSize);
  op.slot = group_slot(node_.group_name());
  return op;
}

TraceOp RankParser::point_to_point(TraceOp op, ChakraNode::Attribute peer) {
  const std::int64_t other = node_.required_value(peer);
  if (other < 0 || other >= kMostChakraRanks) {
    node_.fail_at_node(fmt::format("{} is {}: no rank", ChakraNode::name(peer), other));
  }
  op.bytes = node_.size(ChakraNode::kCommSize);
  op.slot = peer_slot(static_cast<std::uint64_t>(other));
  into_.tags.push_back(node_.number(ChakraNode::kCommTag).value_or(0));
  return op;
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
      "ALL_REDUCE", "REDUCE",         "ALL_GATHER",           "GATHER", "SCATTER", "BROADCAST",
      "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"};
  return kNames.at(static_cast<std::size_t>(collective));
}

void parse_chakra_rank(const std::string& file, std::string_view bytes, ParsedRank& into) {
  RankParser(file, bytes, into).parse();
}

}  // namespace orrery
