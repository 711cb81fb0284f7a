#include "traces/layout_check.hpp"

#include <fmt/format.h>

#include "traces/model.hpp"

namespace orrery {
namespace {

void check_builtin(const Job& job, std::vector<Problem>& out) {
  const Layout& layout = job.layout();
  if (!job.has_pace()) {
    out.push_back({"model.builtin", "the built-in model needs job.pace: what a micro-batch costs"});
  }
  if (layout.tensor() != 1) {
    out.push_back({"layout.tensor", "the built-in model is data parallel only: tensor must be 1"});
  }
  if (layout.pipeline() != 1) {
    out.push_back(
        {"layout.pipeline", "the built-in model is data parallel only: pipeline must be 1"});
  }
}

void check_transformer(const Job& job, std::vector<Problem>& out) {
  const Model& model = job.model();
  const std::uint32_t tensor = job.layout().tensor();
  if (model.heads() % tensor != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} must divide the model's {} heads",
                                                tensor, model.heads())});
  }
  if (model.kv_heads() % tensor != 0 && tensor % model.kv_heads() != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} and the model's {} kv_heads: one "
                                                "must divide the other",
                                                tensor, model.kv_heads())});
  }
  if (model.feed_forward() % tensor != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} must divide feed_forward = {}",
                                                tensor, model.feed_forward())});
  }
  if (job.layout().pipeline() > model.layers()) {
    out.push_back(
        {"layout.pipeline", fmt::format("pipeline = {} is more than the model's {} layers",
                                        job.layout().pipeline(), model.layers())});
  }
}

void check_batch(const Job& job, std::vector<Problem>& out) {
  const std::uint64_t replicas = job.layout().data();
  const std::uint64_t share = replicas * job.micro_batch();
  if (share == 0 || job.global_batch() % share != 0 || job.global_batch() < share) {
    out.push_back({"global_batch",
                   fmt::format("global_batch = {} must be a multiple of data x micro_batch = {}",
                               job.global_batch(), share)});
    return;
  }
  const double passes = static_cast<double>(job.global_batch()) / static_cast<double>(share) *
                        job.layout().pipeline();
  if (passes > kMostPasses) {
    out.push_back({"global_batch",
                   fmt::format("this makes {} micro-batches x stages in a replica, at most {} can "
                               "be simulated: choose a larger micro_batch or more replicas",
                               passes, kMostPasses)});
  }
}

}  // namespace

std::vector<Problem> job_problems(const Job& job) {
  std::vector<Problem> out;
  if (!job.model().builtin().empty()) {
    check_builtin(job, out);
  } else {
    check_transformer(job, out);
  }
  check_batch(job, out);
  const double layout = static_cast<double>(job.layout().tensor()) * job.layout().pipeline();
  const double shard = 4 * parameter_count(job.model()) / (layout > 0 ? layout : 1);
  if (job.bucket() <= 0 || 2 * shard / job.bucket() > kMostBuckets) {
    out.push_back({"bucket", fmt::format("this makes more than {} gradient buckets on a stage: "
                                         "choose a larger one",
                                         kMostBuckets)});
  }
  return out;
}

}  // namespace orrery
