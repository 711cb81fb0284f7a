// The one loop that joins a policy and a backend, and the stack that makes several policies one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policies/backend.hpp"
#include "policies/policy.hpp"

namespace orrery {

/// Starts the policy, asks for its needs (they may depend on its parameters), checks them (throws
/// bad_input naming what the backend lacks), calls observe() for every observation, numbers the
/// decisions from 0. Returns how many were taken.
std::uint64_t drive(Policy& policy, Backend& backend, Context& context);

/// The generator that a run with this seed hands to its policies; a replay must use the same.
inline Rng policy_rng(std::uint64_t seed) { return Rng(seed).split("policy"); }

/// "ShiftMicrobatches" and so on: the name of the action's type.
std::string_view action_name(const Action& action);

/// Members are called in the order of their families (recovery, placement, scheduling,
/// checkpointing, collectives, compression); two decisions on one subject in one batch are an
/// error that names both. At rest only when all members are. Ticks come at the shortest period that
/// any member wants, and every member sees all of them. Each member has a generator of its own, so
/// that adding one changes nothing for the others.
enum class Family : std::uint8_t {
  recovery, placement, scheduling, checkpointing, collectives, compression
};

class PolicyStack : public Policy {
 public:
  struct Member {
    std::string name;
    Family family{};
    std::unique_ptr<Policy> policy;
    std::unique_ptr<google::protobuf::Message> parameters;  ///< may be null
  };
  explicit PolicyStack(std::vector<Member> members);

  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;
  const std::vector<Member>& members() const { return members_; }

 private:
  [[noreturn]] void report_conflict(std::size_t first, std::size_t second, const Action& what,
                                    Nanos now) const;

  std::vector<Member> members_;
  std::vector<Rng> rngs_;  ///< one a member, from start() on
};

}  // namespace orrery
