#include "live/programs/calibration/example_recording.hpp"

#include <optional>
#include <vector>

#include "core/error.hpp"
#include "traces/chakra/recorded_op.hpp"

namespace orrery::live {
namespace {

/// Copies operations behind those of a step, with new numbers.
class Copier {
 public:
  explicit Copier(const RecordedStep& from, RecordedStep& to)
      : from_(from), to_(to), copies_(static_cast<std::size_t>(from.ops_size())) {}

  void copy_op(int number, std::uint32_t micro_batch) {
    const RecordedOp& op = from_.ops(number);
    RecordedOp& copy = *to_.add_ops();
    copy = op;
    copy.set_micro_batch(micro_batch);
    copy.clear_after();
    for (const std::uint32_t before : op.after()) {
      if (copies_[before]) copy.add_after(*copies_[before]);
    }
    copies_[static_cast<std::size_t>(number)] = static_cast<std::uint32_t>(to_.ops_size() - 1);
  }
  /// Forgets the copies, so that later ones do not wait for them.
  void forget_copies() { copies_.assign(copies_.size(), std::nullopt); }

 private:
  const RecordedStep& from_;
  RecordedStep& to_;
  std::vector<std::optional<std::uint32_t>> copies_;
};

}  // namespace

RecordedStep per_example_step(const RecordedStep& step, std::uint32_t examples) {
  ensure(examples > 0, "a batch has examples");
  if (step.sharded()) {
    throw Error(ErrorKind::environment,
                "--per-example: expected a program whose ranks have all parameters, found sharded "
                "ones, whose exchange belongs to whole passes; leave the option out");
  }
  RecordedStep made = step;
  made.clear_ops();
  made.set_micro_batches(2);
  made.set_tokens(step.tokens() * step.micro_batches() / examples);
  for (const RecordedOp& op : step.ops()) {
    if (phase_of(op) == RecordedPhase::update) continue;
    for (const std::uint32_t kernel : op.kernels()) {  // each kernel belongs to one operation
      RecordedKernel& own = *made.mutable_kernels(static_cast<int>(kernel));
      own.set_time(own.time() / examples);
    }
  }
  Copier copier(step, made);
  for (int i = 0; i < step.ops_size(); ++i) {
    const bool is_update = phase_of(step.ops(i)) == RecordedPhase::update;
    if (!is_update && step.ops(i).collective().empty()) copier.copy_op(i, 0);
  }
  copier.forget_copies();
  for (int i = 0; i < step.ops_size(); ++i) {
    const bool is_update = phase_of(step.ops(i)) == RecordedPhase::update;
    copier.copy_op(i, is_update ? 0 : 1);
  }
  return made;
}

}  // namespace orrery::live
