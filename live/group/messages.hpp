// Kinds of the messages between the ranks of a user's program and `orrery run`: the first field of
// each message is the name of its kind. Used by both sides (live/torch, live/programs); the ranks'
// Python sends some kinds itself (python/orrery/programs). Pure functions; thread-safe. For
// example, {"count", "7", "4"} is the answer of a rank that has marked 4 steps to halt number 7.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/schema/names.hpp"
#include "live/group/frames.hpp"

namespace orrery::live {

/// Kinds of messages: first those to a rank, then those of a rank.
enum class MessageKind : std::uint8_t {
  epoch,
  confirm,
  left,
  halt,
  meet,
  give,
  join,
  resume,
  plan,
  propose,
  commit,
  withdraw,
  begin,
  save,
  hello,
  plain,
  beat,
  step,
  settled,
  problem,
  refuse,
  dealt,
  resumed,
  state,
  snapshot,
  unsaved,
  leave,
  confirmed,
  count,
  met,
  given,
  joined,
  ready,
  done,
  accepted,
  late,
  group,
  sharded,
  again
};
constexpr std::array<std::string_view, 39> names_of(MessageKind) {
  return {"epoch",    "confirm", "left",     "halt",      "meet",   "give",    "join",    "resume",
          "plan",     "propose", "commit",   "withdraw",  "begin",  "save",    "hello",   "plain",
          "beat",     "step",    "settled",  "problem",   "refuse", "dealt",   "resumed", "state",
          "snapshot", "unsaved", "leave",    "confirmed", "count",  "met",     "given",   "joined",
          "ready",    "done",    "accepted", "late",      "group",  "sharded", "again"};
}

/// Shares of a program's training state at a rank: a part, or all of it.
enum class StateShare : std::uint8_t { sharded, whole };
constexpr std::array<std::string_view, 2> names_of(StateShare) { return {"sharded", "whole"}; }

/// Returns the kind of a message; nothing for an unknown kind. Throws std::out_of_range for a
/// message without fields.
inline std::optional<MessageKind> kind_of(const Fields& message) {
  return find_named<MessageKind>(message.at(0));
}

/// Returns a message of this kind with these further fields.
inline Fields message_of(MessageKind kind, Fields further = {}) {
  further.insert(further.begin(), std::string(name_of(kind)));
  return further;
}

}  // namespace orrery::live
