// The one loop that joins a policy and a backend, and the stack that makes several policies one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policies/backend.hpp"
#include "policies/policy.hpp"

namespace orrery {

/// Checks capabilities (throws bad_input naming what the backend lacks), starts nothing twice,
/// calls observe() for every observation, numbers the decisions. Returns how many were taken.
std::uint64_t drive(Policy& policy, Backend& backend, Context& context);

/// Members are called in the order of their families (recovery, placement, scheduling,
/// checkpointing, collectives, compression); two decisions on one subject in one batch are an
/// error that names both. At rest only when all members are.
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

 private:
  std::vector<Member> members_;
};

}  // namespace orrery
