#include "live/programs/policies/program_rules.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "live/group/messages.hpp"
#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {
namespace {

/// Largest share of a rank beside its own batch: a larger batch needs more memory.
constexpr std::uint32_t kMostShare = 2;
constexpr const char* kNoState =
    "expected a program that calls orrery.torch.state(), or a Trainer of transformers or Lightning "
    "with DistributedDataParallel, found none";

/// Visitor of the actions of a decision.
struct Refusal {
  const ProgramFeatures& features;
  const ProgramSituation& now;
  const JobInfo& job;
  Step at_step;

  std::string operator()(const Assign& assign) const {
    if (assign.is_release()) return "a program keeps its ranks until it ends";
    std::vector<std::size_t> target;
    for (const GpuId gpu : assign.gpus) target.push_back(gpu.value);
    if (!std::is_sorted(target.begin(), target.end())) {
      return "expected the ranks of a program in ascending order";
    }
    return is_restart(job, assign) ? restart(target.size()) : change(target);
  }
  std::string operator()(const Configure& configure) const {
    if (const auto* plan = std::get_if<CheckpointPlan>(&configure.what)) return tier(plan->tier);
    if (const auto* rules = std::get_if<CodecRules>(&configure.what)) return codes(*rules);
    if (std::holds_alternative<Prefetch>(configure.what)) return features.no_prefetch;
    if (std::holds_alternative<CollectiveTable>(configure.what)) return table();
    const auto* shares = std::get_if<Shares>(&configure.what);
    if (shares == nullptr) return "a program cannot change this setting";
    if (at_step == 0) {
      return "expected a step from which the shares apply, found none: ranks of a program do not "
             "stop between two steps";
    }
    for (std::size_t rank = 0; rank < shares->per_replica.size(); ++rank) {
      if (shares->per_replica[rank] > 0 || job.is_lost({static_cast<std::uint32_t>(rank)})) {
        continue;
      }
      return fmt::format("expected at least one example for each rank, found none for rank {}",
                         rank);
    }
    return {};
  }
  std::string operator()(const Save& save) const { return tier(save.tier); }

 private:
  std::string codes(const CodecRules& rules) const {
    if (!features.no_codes.empty()) return "no codes of gradients: " + features.no_codes;
    if (rule_for(rules, kMatrices).codec != Codec::power_sgd) return {};
    return "expected a code of single values, found power_sgd: a bucket of a program is no matrix";
  }
  std::string table() const {
    if (!features.no_table.empty()) return "no table of collectives: " + features.no_table;
    if (!features.is_bare || !now.has_table) return {};
    return "expected the table before the first communicator of a program without PyTorch, whose "
           "ranks do not agree on a later call";
  }
  std::string tier(Tier tier) const {
    if (!features.has_saves) return "no snapshots: " + features.no_saves;
    return is_in_memory(tier) ? "snapshots of a program are files: choose local_disk or storage"
                              : "";
  }
  std::string restart(std::size_t ranks) const {
    if (ranks != now.ranks) {
      return fmt::format("expected all {} ranks for a restart, found {}", now.ranks, ranks);
    }
    return now.can_restart ? "" : "no restart is left; start the run with a larger --restart";
  }
  std::string change(const std::vector<std::size_t>& target) const {
    if (now.members.empty()) return "no rank is left whose state a new process could load";
    if (!std::includes(target.begin(), target.end(), now.members.begin(), now.members.end())) {
      return "a rank that trains cannot leave its program";
    }
    const std::size_t added = target.size() - now.members.size();
    if (added == 0) return {};
    if (!features.has_state) {
      return fmt::format("a lost rank cannot be replaced: {}; the other ranks continue", kNoState);
    }
    if (!features.is_whole) {
      return "a lost rank cannot be replaced: the state is sharded, and no other rank has its part";
    }
    if (added <= now.replacements_left) return {};
    return "no process is left for a lost rank; start the run with a larger --replace";
  }
};

}  // namespace

Capabilities ProgramFeatures::capabilities() const {
  Capabilities all{Kinds<Action>::of<Assign>(), {}};
  if (has_saves) {
    all.actions = all.actions | Kinds<Action>::of<Save>();
    all.settings = all.settings | Kinds<Setting>::of<CheckpointPlan>();
  }
  if (no_codes.empty()) all.settings = all.settings | Kinds<Setting>::of<CodecRules>();
  if (share > 0) all.settings = all.settings | Kinds<Setting>::of<Shares>();
  if (prefetch.workers > 0) all.settings = all.settings | Kinds<Setting>::of<Prefetch>();
  if (no_table.empty()) all.settings = all.settings | Kinds<Setting>::of<CollectiveTable>();
  if (!all.settings.empty()) all.actions = all.actions | Kinds<Action>::of<Configure>();
  return all;
}

Prefetch prefetch_of(const Fields& fields, std::size_t first) {
  return {static_cast<std::uint32_t>(std::stoul(fields.at(first))),
          static_cast<std::uint32_t>(std::stoul(fields.at(first + 1)))};
}

ProgramFeatures features_of(const Fields& fields) {
  ProgramFeatures features;
  const auto state = find_named<StateShare>(fields.at(2));
  const bool joins = fields.at(14) == "1";
  features.has_state = state.has_value() || joins;
  features.is_whole = state == StateShare::whole || joins;
  features.has_saves = !fields.at(2).empty();
  features.every = std::stoull(fields.at(3));
  features.share = static_cast<std::uint32_t>(std::stoul(fields.at(4)));
  features.no_shares = fields.at(5);
  features.no_codes = fields.at(6);
  features.prefetch = prefetch_of(fields, 7);
  features.most_prefetch = prefetch_of(fields, 9);
  features.no_prefetch = fields.at(11);
  features.no_saves = fields.at(12);
  features.no_table = fields.at(13);
  return features;
}

ProgramFeatures bare_features(const std::string& no_table) {
  const std::string reason = "expected groups of PyTorch, found a program that loads NCCL alone";
  ProgramFeatures features;
  features.no_saves = features.no_shares = features.no_codes = features.no_prefetch = reason;
  features.no_table = no_table;
  features.is_bare = true;
  return features;
}

ProgramFeatures common_features(const ProgramFeatures& a, const ProgramFeatures& b) {
  ProgramFeatures both = a;
  both.has_state = a.has_state && b.has_state;
  both.is_whole = a.is_whole && b.is_whole;
  both.has_saves = a.has_saves && b.has_saves;
  if (both.no_saves.empty()) both.no_saves = b.no_saves;
  if (both.no_codes.empty()) both.no_codes = b.no_codes;
  if (both.no_table.empty()) both.no_table = b.no_table;
  both.most_prefetch = {std::min(a.most_prefetch.workers, b.most_prefetch.workers),
                        std::min(a.most_prefetch.depth, b.most_prefetch.depth)};
  if (a.prefetch != b.prefetch) {
    both.prefetch = {};
    if (both.no_prefetch.empty()) both.no_prefetch = b.no_prefetch;
    if (both.no_prefetch.empty()) both.no_prefetch = "the ranks read their data differently";
  }
  if (a.share == b.share) return both;
  both.share = 0;
  if (both.no_shares.empty()) both.no_shares = b.no_shares;
  if (both.no_shares.empty()) both.no_shares = "the ranks have batches of different sizes";
  return both;
}

std::string missing_features(const ProgramFeatures& features, const Needs& needs) {
  const Capabilities has = features.capabilities();
  std::vector<std::string> reasons;
  const auto settings = needs.settings - has.settings;
  const bool saves = (needs.actions - has.actions).has<Save>() || settings.has<CheckpointPlan>();
  if (saves) reasons.push_back("snapshots: " + features.no_saves);
  if (settings.has<Shares>()) reasons.push_back("shares: " + features.no_shares);
  if (settings.has<CodecRules>()) reasons.push_back("codes of gradients: " + features.no_codes);
  if (settings.has<Prefetch>()) reasons.push_back("readers of data: " + features.no_prefetch);
  if (settings.has<CollectiveTable>()) {
    reasons.push_back("table of collectives: " + features.no_table);
  }
  for (std::size_t kind = 0; kind < setting_names().size(); ++kind) {
    const bool is_known =
        kind == Setting(Shares{}).index() || kind == Setting(CheckpointPlan{}).index() ||
        kind == Setting(CodecRules{}).index() || kind == Setting(CollectiveTable{}).index() ||
        kind == Setting(Prefetch{}).index();
    if (is_known || !settings.has_index(kind)) continue;
    reasons.push_back(fmt::format("the setting {}, which no program has", setting_names()[kind]));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::string program_refusal(const ProgramFeatures& features, const ProgramSituation& situation,
                            const JobInfo& job, const Decision& decision) {
  return std::visit(Refusal{features, situation, job, decision.at_step}, decision.what);
}

std::string share_text(const std::vector<std::uint32_t>& shares,
                       const std::vector<std::pair<std::size_t, bool>>& ranks) {
  std::string text = "shares";
  for (std::size_t rank = 0; rank < std::min(shares.size(), ranks.size()); ++rank) {
    if (shares[rank] > 0) text += fmt::format(" {}:{}", ranks[rank].first, shares[rank]);
  }
  return text;
}

std::string codec_text(const CodecRules& rules) {
  const CodecRule rule = rule_for(rules, kMatrices);
  return fmt::format("codecs {} {} {}", codec_name(rule.codec), rule.parameter,
                     rule.error_feedback ? 1 : 0);
}

std::string prefetch_text(const Prefetch& prefetch) {
  return fmt::format("prefetch {} {}", prefetch.workers, prefetch.depth);
}

JobSpec program_job(const std::string& name, std::uint32_t ranks, const ProgramFeatures& features) {
  const std::uint32_t share = std::max(features.share, 1u);
  JobSpec spec;
  spec.id = JobId{0};
  spec.name = name;
  spec.gpus = ranks;
  spec.least_gpus = 1;
  spec.most_gpus = ranks;
  spec.layout.data = ranks;
  spec.micro_batches = share * ranks;
  if (features.share > 0) spec.max_micro_batches = kMostShare * share;
  spec.can = features.capabilities().settings;
  if (features.has_saves) spec.settings = {CheckpointPlan{features.every, Tier::local_disk}};
  if (features.prefetch.workers > 0) {
    spec.settings.push_back(features.prefetch);
    spec.max_workers = std::max(features.most_prefetch.workers, features.prefetch.workers);
    spec.max_prefetch = std::max(features.most_prefetch.depth, features.prefetch.depth);
  }
  return spec;
}

}  // namespace orrery::live
