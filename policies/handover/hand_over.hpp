// Authority of the policies in a run: their decisions are applied (drive), only observed (shadow),
// or applied after an approval (approve). A decorator of any backend, so the rules are the same for
// every backend; it answers a decision that it does not forward with a rejection, as a backend
// would. Wake-ups are no decisions and are always forwarded. The kill switch and the limit apply in
// every mode. Used inside the recorder: a log holds the outcomes that the policies saw. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/seam/backend.hpp"
#include "policies/handover/shadow_score.hpp"
#include "traces/report.pb.h"

namespace orrery {

enum class HandOverMode : std::uint8_t { drive, shadow, approve };

/// Returns the mode named "drive", "shadow" or "approve"; empty is drive. Throws a usage Error for
/// any other name.
HandOverMode hand_over_mode(const std::string& name);

/// Answer to a request for approval.
struct Verdict {
  std::uint64_t decision = 0;
  bool accepted = false;
  std::string reason;  ///< reason of a refusal
};

/// Source of approvals.
class Approver {
 public:
  virtual ~Approver() = default;
  /// Asks for the approval of a decision.
  virtual void request_approval(const Decision& decision, Nanos now) = 0;
  /// Returns the answers since the last call; does not wait.
  virtual std::vector<Verdict> verdicts() = 0;
};

/// Authority of policies in a run: mode, limits and kill switch.
struct HandOverRules {
  HandOverMode mode = HandOverMode::drive;
  std::uint32_t per_hour = 0;  ///< limit of forwarded decisions in any hour; 0: no limit
  /// policy clock; an unanswered question counts as refused afterwards
  Nanos patience = 60 * kNanosPerSecond;
  Approver* approver = nullptr;            ///< required by approve; must outlive the backend
  std::function<bool()> stopped = {};      ///< the kill switch, read with every observation
};

/// Backend that forwards decisions according to HandOverRules.
class HandOver : public Backend {
 public:
  HandOver(Backend& inner, HandOverRules rules);

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;
  /// Writes the counts of forwarded and refused decisions and the shadow score.
  void fill(HandOverReport& report) const;
  DecisionId decided_before() const override { return decided_; }
  /// Returns the state between two calls, for another process; nothing while a question is open or
  /// an answer has not been shown yet.
  std::optional<std::string> save() const;
  /// Restores the state within begin().
  void load(std::string_view saved);

 private:
  struct Question {
    Decision decision;
    Nanos asked = 0;
  };
  void judge_decision(const Decision& decision);
  void pass_on(Decision decision);
  void refuse_decision(std::uint64_t decision, std::string reason, std::uint64_t& count);
  void take_verdicts();
  /// Refuses the open questions about a job, or all.
  void close_questions(std::optional<JobId> job, const std::string& reason, std::uint64_t& count);

  Backend& inner_;
  const HandOverRules rules_;
  std::optional<Observation> seen_;  ///< newest observation of the inner backend
  std::uint64_t sequence_ = 0;
  std::vector<Event> refused_;          ///< outcomes for the next observation
  std::vector<Event> shown_;            ///< events of the last observation, if outcomes were added
  bool ended_ = false;                  ///< true if the inner backend has no more observations
  DecisionList passed_;                 ///< decisions of this call for the inner backend
  std::map<std::uint64_t, Question> open_;
  std::deque<Nanos> passed_at_;  ///< instants within the last hour
  ShadowScore score_;
  DecisionId decided_ = 0;  ///< number of decisions so far
  std::uint64_t passed_on_ = 0, watched_ = 0, refused_count_ = 0, over_limit_ = 0, stopped_ = 0;
};

}  // namespace orrery
