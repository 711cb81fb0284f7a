// Authority of the policies in a run: their decisions are applied (drive), only observed (shadow),
// or applied after an approval (approve). The rules are in a decorator of the backend, so they are
// the same for every backend. The decorator reports a decision that it does not forward as
// rejected, as a backend would. Wake-up times are always forwarded. The kill switch works in every
// mode; the limit of decisions per hour counts forwarded decisions. The recorder is the outer
// decorator, so a log contains the outcomes that the policies saw. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "policies/handover/shadow_score.hpp"
#include "policies/seam/backend.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Handling of decisions: apply, observe only, or apply after an approval.
enum class HandOverMode : std::uint8_t { drive, shadow, approve };
constexpr std::array<std::string_view, 3> names_of(HandOverMode) {
  return {"drive", "shadow", "approve"};
}

/// Returns the mode named "drive", "shadow" or "approve"; `drive` for an empty name. Throws a usage
/// Error for any other name.
HandOverMode hand_over_mode(std::string_view name);

/// Answer to a request for approval.
struct Verdict {
  std::uint64_t decision = 0;  ///< id of the decision
  bool accepted = false;
  std::string reason;  ///< reason of a refusal, may be empty
  bool unanswered = false;  ///< true: refused because the operator did not answer in time
};

/// Interface to the operators who approve decisions.
class Approver {
 public:
  virtual ~Approver() = default;
  /// Requests the approval of a decision at the instant `now` of the policy clock. The answer comes
  /// from verdicts(). May block until the answer, if no policy time may pass meanwhile. Throws an
  /// environment Error if the process that asks the operators is gone. Call once for each decision.
  virtual void request_approval(const Decision& decision, Nanos now) = 0;
  /// Returns the answers since the last call without blocking.
  virtual std::vector<Verdict> verdicts() = 0;
};

/// Rules for the authority of policies in a run: mode, limits and kill switch.
struct HandOverRules {
  HandOverMode mode = HandOverMode::drive;
  std::uint32_t per_hour = 0;  ///< limit of forwarded decisions in any hour; 0: no limit
  /// time, on the policy clock, after which an unanswered request counts as refused
  Nanos patience = 60 * kNanosPerSecond;
  Approver* approver = nullptr;        ///< required by mode approve; must outlive the HandOver
  std::function<bool()> stopped = {};  ///< kill switch, read once for every observation
};

/// Backend decorator that forwards decisions according to HandOverRules. For example, in mode
/// shadow every decision is rejected with "shadow mode: observed, not applied", and a decision
/// about shares gets a score.
class HandOver : public Backend {
 public:
  /// Constructs a decorator of `inner`, which must outlive the decorator. Throws an internal Error
  /// for mode approve without an approver.
  HandOver(Backend& inner, HandOverRules rules);

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  /// Returns the next observation of `inner`, with the outcomes of the decisions that were not
  /// forwarded before its own events and with its own `sequence`. If such outcomes remain after the
  /// last observation of `inner`, returns that observation again with these outcomes alone, once
  /// more for each further call in which the policies decide; nothing after that. Mode shadow also
  /// scores each observation of `inner`.
  std::optional<Observation> next() override;
  /// Drive forwards each decision; shadow refuses and scores each; approve requests an approval and
  /// forwards an approved decision at this or a later call (from the next step on, if its own step
  /// has begun by then). A decision beyond `per_hour` in the hour before is refused instead.
  /// Pending approvals are refused by the approver, after `patience`, at the end of their job and
  /// at the end of the run. The kill switch refuses all decisions, pending ones too. A refused
  /// decision gets its Decided event (rejected) in the next observation, requested for the same
  /// instant. The idle promise is forwarded only if no refusal and no approval is pending.
  void apply(const DecisionList& decisions) override;
  /// Changes the mode for later decisions. Refuses the pending decisions if the new mode asks for
  /// no approvals. Call between two calls of apply(). Throws an internal Error for mode approve
  /// without an approver.
  void set_mode(HandOverMode mode);
  /// Writes the mode, the numbers of forwarded, observed, refused, unanswered, over-limit and
  /// stopped decisions so far, and the scores of mode shadow. Call once for a report.
  void fill(HandOverReport& report) const;
  /// Returns the id after the highest one of the decisions so far: those of apply(), of an earlier
  /// process (load()) and of `inner`.
  DecisionId decided_before() const override {
    return std::max(decided_, inner_.decided_before());
  }
  /// Returns the state between two calls, for another process that continues the run; nothing while
  /// an approval is pending, an outcome has not been shown yet, or the run is over.
  std::optional<std::string> save() const;
  /// Restores a saved state. Call once, within begin(). Throws an internal Error for incomplete
  /// bytes; the object is then of no further use.
  void load(std::string_view saved);

 private:
  /// Decision that waits for an approval.
  struct Question {
    Decision decision;
    Nanos asked = 0;  ///< instant of the request
  };
  void judge_decision(const Decision& decision);
  void pass_on(Decision decision);
  void refuse_decision(std::uint64_t decision, std::string reason, std::uint64_t& count);
  void take_verdicts();
  /// Refuses the pending decisions on a job, or on all jobs, and adds their number to `count`.
  void close_questions(std::optional<JobId> job, const std::string& reason, std::uint64_t& count);

  Backend& inner_;
  HandOverRules rules_;
  std::optional<Observation> seen_;  ///< newest observation of the inner backend
  std::uint64_t sequence_ = 0;
  std::vector<Event> refused_;          ///< outcomes for the next observation
  std::vector<Event> shown_;            ///< events of the last observation, if outcomes were added
  bool ended_ = false;                  ///< true if the inner backend has no more observations
  DecisionList passed_;                 ///< decisions of this call for the inner backend
  std::map<std::uint64_t, Question> open_;  ///< pending approvals, by id of the decision
  std::deque<Nanos> passed_at_;  ///< instants of the decisions forwarded within the last hour
  ShadowScore score_;
  DecisionId decided_ = 0;  ///< id after that of the newest decision of apply()
  std::uint64_t passed_on_ = 0, watched_ = 0, refused_count_ = 0, over_limit_ = 0, stopped_ = 0;
  std::uint64_t unanswered_ = 0;  ///< part of refused_count_
};

}  // namespace orrery
