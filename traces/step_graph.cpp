#include "traces/step_graph.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "traces/layout_check.hpp"
#include "traces/model.hpp"
#include "traces/step_blocks.hpp"

namespace orrery {
namespace {

/// Layers of a stage: the remainder goes to the first stages.
StageShape shape_of(const Job& job, std::uint32_t stage) {
  const std::uint32_t stages = job.layout().pipeline();
  const std::uint32_t layers = job.model().layers();
  return {.layers = layers / stages + (stage < layers % stages ? 1u : 0u),
          .first = stage == 0,
          .last = stage + 1 == stages};
}

bool is_builtin(const Job& job) { return !job.model().builtin().empty(); }

/// The built-in model trains in fp32, whatever the job says.
double element_bytes(const Job& job) {
  return is_builtin(job) || job.precision() == "fp32" ? 4 : 2;
}

}  // namespace

StepGraph::StepGraph(const Job& job) : job_(job) {
  const std::vector<Problem> problems = job_problems(job_);
  if (!problems.empty()) {
    const Problem& first = problems.front();
    throw Error(ErrorKind::bad_input, "job." + first.path + ": " + first.message);
  }
  if (job_.has_pace()) {
    add_declared_stages();
  } else {
    add_transformer_stages();
  }
}

std::uint32_t StepGraph::add_block(Block block) {
  blocks_.push_back(std::move(block));
  return static_cast<std::uint32_t>(blocks_.size() - 1);
}

std::uint32_t StepGraph::bucket_count(double gradient_bytes) const {
  if (data() == 1) return 0;
  return std::max(1u, static_cast<std::uint32_t>(std::ceil(gradient_bytes / job_.bucket())));
}

/// A micro-batch takes what the job declares, a third of it forward; every stage takes an equal
/// share of it.
void StepGraph::add_declared_stages() {
  const double element = element_bytes(job_);
  const Nanos whole = job_.pace().micro_batch() / pipeline();
  const Nanos forward = whole / 3;
  const double parameters = parameter_count(job_.model()) / tensor() / pipeline();
  Stage stage;
  stage.parameters = parameters;
  stage.gradient_bytes = parameters * element;
  stage.buckets = bucket_count(stage.gradient_bytes);
  stage.layers = std::max(1u, job_.model().layers() / pipeline());
  stage.forward = add_block(Block{.declared = forward});
  stage.backward = add_block(Block{.declared = whole - forward});
  if (!job_.overlap() || stage.buckets <= 1) {
    stage.last_backward.push_back(stage.backward);
  } else {
    const Nanos part = (whole - forward) / stage.buckets;
    const Nanos rest = whole - forward - part * (stage.buckets - 1);
    stage.last_backward.push_back(add_block(Block{.declared = rest}));
    const std::uint32_t others = add_block(Block{.declared = part});
    stage.last_backward.resize(stage.buckets, others);
  }
  stage.optimizer = add_block(optimizer_block(parameters, element));
  stages_.push_back(std::move(stage));
  stage_kind_.assign(pipeline(), 0);
}

void StepGraph::add_transformer_stages() {
  const RankShape rank(job_);
  std::vector<StageShape> kinds;
  for (std::uint32_t number = 0; number < pipeline(); ++number) {
    const StageShape shape = shape_of(job_, number);
    const auto known = std::find(kinds.begin(), kinds.end(), shape);
    stage_kind_.push_back(static_cast<std::uint32_t>(known - kinds.begin()));
    if (known != kinds.end()) continue;
    kinds.push_back(shape);
    Stage stage;
    stage.layers = shape.layers;
    stage.parameters = rank.parameters(shape);
    stage.gradient_bytes = stage.parameters * rank.element;
    stage.buckets = bucket_count(stage.gradient_bytes);
    stage.forward = add_block(forward_block(rank, shape));
    stage.backward = add_block(backward_block(rank, shape, 1, shape.last, shape.first));
    const std::uint32_t parts = job_.overlap() ? stage.buckets : 1;
    if (parts <= 1) {
      stage.last_backward.push_back(stage.backward);
    } else {
      const double share = 1.0 / parts;
      stage.last_backward.push_back(
          add_block(backward_block(rank, shape, share, shape.last, false)));
      if (parts > 2) {
        const std::uint32_t middle = add_block(backward_block(rank, shape, share, false, false));
        stage.last_backward.resize(parts - 1, middle);
      }
      stage.last_backward.push_back(
          add_block(backward_block(rank, shape, share, false, shape.first)));
    }
    stage.optimizer = add_block(optimizer_block(stage.parameters, rank.element));
    stages_.push_back(std::move(stage));
  }
}

std::uint32_t StepGraph::micro_batches() const { return job_.global_batch() / job_.micro_batch(); }

double StepGraph::tokens() const {
  return static_cast<double>(job_.global_batch()) * job_.sequence_length();
}

Flop StepGraph::model_flop() const {
  const Model& model = job_.model();
  if (is_builtin(job_)) {
    const double table = double{BuiltinModel::vocabulary} * BuiltinModel::embedding;
    return Flop{6 * (builtin_parameter_count() - table) * tokens()};
  }
  const double hidden = model.hidden();
  const double key_value = hidden / model.heads() * model.kv_heads();
  const double layer = 2 * hidden * hidden + 2 * hidden * key_value +
                       (model.gated() ? 3.0 : 2.0) * hidden * model.feed_forward();
  const double matrices = model.layers() * layer + double{1} * model.vocabulary() * hidden;
  const double attention = 2.0 * model.layers() * job_.sequence_length() * hidden;
  return Flop{3 * (2 * matrices + attention) * tokens()};
}

double StepGraph::activation_bytes(std::uint32_t stage) const {
  const double tokens = static_cast<double>(job_.micro_batch()) * job_.sequence_length();
  if (is_builtin(job_)) {
    const double row = BuiltinModel::context * BuiltinModel::embedding +
                       2.0 * BuiltinModel::hidden + 2.0 * BuiltinModel::vocabulary;
    return tokens * row * 4;
  }
  const RankShape r(job_);
  // Inputs of two norms, of the query projection and of the MLP; then what each GEMM and the
  // activation keep for the backward pass, and the softmax's running statistics.
  const double inputs = 4 * r.own_tokens() * r.hidden * r.element;
  const double attention = r.tokens * (2 * r.heads + 2 * r.kv_heads) * r.head * r.element;
  const double mlp = r.tokens * (r.mlp_up + r.feed_forward) * r.element;
  return stages_[stage_kind_[stage]].layers * (inputs + attention + mlp + r.tokens * r.heads * 4);
}

MemoryUse StepGraph::memory(std::uint32_t stage, std::uint32_t micro_batches) const {
  ensure(stage < pipeline(), "a stage of the pipeline");
  const Stage& kind = stages_[stage_kind_[stage]];
  const double element = element_bytes(job_);
  MemoryUse use;
  use.parameters = Bytes{kind.parameters * element};
  use.gradients = Bytes{kind.gradient_bytes};
  use.optimizer = Bytes{kind.parameters * (element < 4 ? 12 : 8)};
  const double in_flight = std::min(pipeline() - stage, micro_batches);
  use.activations = Bytes{in_flight * activation_bytes(stage)};
  if (is_builtin(job_)) return use;
  // The loss of the one micro-batch that the last stage holds: fp32 logits. Everywhere: one
  // gathered activation and, at a boundary, what is being sent and received.
  const RankShape r(job_);
  if (stage + 1 == pipeline()) use.activations += Bytes{r.tokens * r.vocabulary * 4};
  const double whole = r.tokens * r.hidden * r.element;
  const double boundary = pipeline() > 1 ? 2 * r.own_tokens() * r.hidden * r.element : 0;
  use.buffers = Bytes{(tensor() > 1 ? whole : 0) + boundary};
  return use;
}

}  // namespace orrery
