#include "policies/handover/fallback.hpp"

#include <exception>

namespace orrery {
namespace {

// Start of the archive of a disabled policy, with which no archive of a policy starts. The message
// of the failure follows.
constexpr std::string_view kPutAside = "\xff\xff put aside: ";

}  // namespace

void FallbackPolicy::start(Context& context, const Cluster& cluster,
                           const google::protobuf::Message* parameters) {
  inner_.start(context, cluster, parameters);
}

void FallbackPolicy::forward(Context& context, const Observation& seen, DecisionList& decisions) {
  if (const std::string why = given_up_before_ ? given_up_before_() : std::string(); !why.empty()) {
    throw PolicyGivenUp(why, true);
  }
  inner_.observe(context, seen, decisions);
  if (falls_back_) standstill_.check_progress(seen, decisions);
}

void FallbackPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  bool given_up = false;
  if (failure_.empty()) {
    try {
      return forward(context, seen, decisions);
    } catch (const PolicyGivenUp& error) {
      if (!falls_back_ && !error.run_ends()) throw;
      failure_ = error.message();
      given_up = true;
    } catch (const std::exception& error) {
      if (!falls_back_) throw;
      failure_ = error.what();
    }
    if (failure_.empty()) failure_ = "an exception without a message";
    failed_at_ = seen.now;
  }
  decisions.drop_all();
  decisions.rest();
  if (given_up) decisions.give_up(failure_);
}

void FallbackPolicy::save(Archive& archive) const {
  if (failure_.empty()) return inner_.save(archive);
  archive = std::string(kPutAside) + failure_;
}

void FallbackPolicy::load(const Archive& archive) {
  if (!archive.starts_with(kPutAside)) return inner_.load(archive);
  failure_ = archive.substr(kPutAside.size());
}

}  // namespace orrery
