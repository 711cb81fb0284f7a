// How far a run hands control to its policies: they drive, they are only watched (shadow), or each
// decision is put to somebody (approve). A decorator round any backend, so that the same holds for
// every one of them: what it does not pass on is answered with a rejection, as a backend would.
// Wake-ups are no decisions and always pass. The kill switch and the limit hold in every mode. Used
// inside the recorder: a log holds the outcomes that the policies saw. One thread.
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

/// "drive", "shadow", "approve"; empty is drive. Throws a usage Error for anything else.
HandOverMode hand_over_mode(const std::string& name);

struct Verdict {
  std::uint64_t decision = 0;
  bool accepted = false;
  std::string reason;  ///< of a refusal
};

/// Whoever says yes or no to decisions.
class Approver {
 public:
  virtual ~Approver() = default;
  virtual void ask(const Decision& decision, Nanos now) = 0;
  /// What has been answered since the last call. Does not wait.
  virtual std::vector<Verdict> verdicts() = 0;
};

struct HandOverRules {
  HandOverMode mode = HandOverMode::drive;
  std::uint32_t per_hour = 0;              ///< decisions passed on in any hour; 0: no limit
  Nanos patience = 60 * kNanosPerSecond;   ///< policy clock; an open question is then a no
  Approver* approver = nullptr;            ///< needed by approve; outlives the backend
  std::function<bool()> stopped = {};      ///< the kill switch, asked with every observation
};

class HandOver : public Backend {
 public:
  HandOver(Backend& inner, HandOverRules rules);

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;
  void fill(HandOverReport& report) const;
  DecisionId decided_before() const override { return decided_; }
  /// Between two calls, to go on with in another process; nothing while a question is open or an
  /// answer is still to be shown.
  std::optional<std::string> save() const;
  /// Within begin().
  void load(std::string_view saved);

 private:
  struct Question {
    Decision decision;
    Nanos asked = 0;
  };
  void consider(const Decision& decision);
  void pass_on(Decision decision);
  void refuse(std::uint64_t decision, std::string reason, std::uint64_t& count);
  void take_verdicts();
  /// Refuses the open questions about a job, or all.
  void close_questions(std::optional<JobId> job, const std::string& reason, std::uint64_t& count);

  Backend& inner_;
  const HandOverRules rules_;
  std::optional<Observation> seen_;  ///< the newest of the inner backend
  std::uint64_t sequence_ = 0;
  std::vector<Event> refused_;          ///< outcomes for the next observation
  std::vector<Event> shown_;            ///< the last one's events, if there were such
  bool ended_ = false;                  ///< the inner backend has nothing more to show
  DecisionList passed_;                 ///< to the inner backend, of this call
  std::map<std::uint64_t, Question> open_;
  std::deque<Nanos> passed_at_;  ///< within the last hour
  ShadowScore score_;
  DecisionId decided_ = 0;  ///< so far
  std::uint64_t passed_on_ = 0, watched_ = 0, refused_count_ = 0, over_limit_ = 0, stopped_ = 0;
};

}  // namespace orrery
