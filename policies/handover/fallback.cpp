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

void FallbackPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  if (failure_.empty()) {
    try {
      inner_.observe(context, seen, decisions);
      standstill_.check_progress(seen, decisions);
      return;
    } catch (const std::exception& error) {
      failure_ = error.what();
      if (failure_.empty()) failure_ = "an exception without a message";
      failed_at_ = seen.now;
    }
  }
  decisions.drop_all();
  decisions.rest();
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
