#include "live/training/gradient_exchange.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "live/codec/arithmetic.hpp"

namespace orrery::live {
namespace {

double square_sum(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return sum;
}

bool is_matrix(const GradientTensor& tensor) { return tensor.rows > 1 && tensor.columns > 1; }

/// The part that rank `rank` of `ranks` sums.
std::span<float> part(std::span<float> values, std::uint32_t rank, std::uint32_t ranks) {
  const std::size_t begin = values.size() * rank / ranks;
  const std::size_t end = values.size() * (rank + 1) / ranks;
  return values.subspan(begin, end - begin);
}

bool in_two_steps(const CodecRule& rule) {
  return rule.codec != Codec::none && rule.codec != Codec::power_sgd;
}

}  // namespace

std::vector<GradientTensor> gradient_tensors(std::span<const Tensor> tensors) {
  std::vector<GradientTensor> out;
  for (const Tensor& tensor : tensors) {
    GradientTensor each{.offset = tensor.offset, .rows = tensor.rows, .columns = tensor.columns};
    if (!is_matrix(each)) {
      each.bucket_class = kVectors;
    } else if (std::string_view(tensor.name).find("embedding") != std::string_view::npos) {
      each.bucket_class = kEmbeddings;
    }
    out.push_back(each);
  }
  return out;
}

std::vector<GradientBucket> cut_buckets(std::span<const GradientTensor> tensors,
                                        std::span<const CodecRule> rules, double bucket_bytes) {
  const double most = bucket_bytes > 0 ? bucket_bytes / sizeof(float) : 1e18;
  std::vector<GradientBucket> buckets;
  for (const GradientTensor& tensor : tensors) {
    const CodecRule rule = rule_for(rules, tensor.bucket_class, is_matrix(tensor));
    const bool joins = !buckets.empty() && buckets.back().rule == rule &&
                       rule.codec != Codec::power_sgd &&
                       static_cast<double>(buckets.back().count + tensor.size()) <= most;
    if (!joins) buckets.push_back({.offset = tensor.offset, .rule = rule});
    buckets.back().count += tensor.size();
    buckets.back().rows = tensor.rows;
    buckets.back().columns = tensor.columns;
  }
  return buckets;
}

/// Memory of one bucket, and its data in flight.
struct GradientExchange::Bucket {
  explicit Bucket(const GradientBucket& cut) : where(cut), codec(make_codec(cut.rule)) {}
  GradientBucket where;
  std::shared_ptr<const GradientCodec> codec;
  /// state of the parts sent to each rank; PowerSGD: [0], the whole
  std::vector<CodecState> to_rank;
  CodecState of_sum;                ///< state of this rank's part of the sum
  std::vector<std::byte> sum_code;
};

struct GradientExchange::Memory {
  Step step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t ranks = 1, rank = 0;
  std::vector<CodecRule> rules;
  std::vector<Bucket> buckets;
  bool whole = false;  ///< the exchange that left this ended well

  void leave_to(std::span<float> gradient) const;
};

GradientExchange::GradientExchange(std::vector<GradientTensor> tensors, double bucket_bytes)
    : tensors_(std::move(tensors)), bucket_bytes_(bucket_bytes) {}

GradientExchange::~GradientExchange() { cancel_exchange(); }

void GradientExchange::cancel_exchange() {
  if (!beside_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
  fabric_->abort("this rank gave up a gradient exchange");
  beside_.join();
  stopped_ = false;
  failure_ = nullptr;
}

/// Adds the values left out by earlier codes to the gradient.
void GradientExchange::Memory::leave_to(std::span<float> gradient) const {
  const auto add = [](const CodecState& state, std::span<float> values) {
    for (std::size_t i = 0; i < state.residual.size(); ++i) values[i] += state.residual[i];
  };
  for (const Bucket& bucket : buckets) {
    const auto values = gradient.subspan(bucket.where.offset, bucket.where.count);
    if (bucket.where.rule.codec == Codec::power_sgd) {
      add(bucket.to_rank[0], values);
      continue;
    }
    for (std::uint32_t to = 0; to < ranks; ++to) add(bucket.to_rank[to], part(values, to, ranks));
    add(bucket.of_sum, part(values, rank, ranks));
  }
}

void GradientExchange::prepare_buckets(Fabric& fabric, const Order& order,
                                       std::span<float> gradient) {
  fabric_ = &fabric;
  const bool goes_on = pending_ && pending_->whole && pending_->step != order.step;
  if (goes_on) committed_ = std::move(pending_);
  const std::vector<CodecRule> rules(order.rules.begin(), order.rules.end());
  if (committed_ && committed_->epoch == order.epoch && committed_->rules == rules) {
    pending_ = std::make_unique<Memory>(*committed_);
  } else {
    if (committed_) committed_->leave_to(gradient);
    pending_ = std::make_unique<Memory>();
    pending_->epoch = order.epoch;
    pending_->ranks = fabric.ranks();
    pending_->rank = fabric.rank();
    for (const GradientBucket& cut : cut_buckets(tensors_, rules, bucket_bytes_)) {
      pending_->buckets.emplace_back(cut).to_rank.resize(fabric.ranks());
    }
    pending_->rules = rules;
  }
  pending_->step = order.step;
  pending_->whole = false;
}

void GradientExchange::reduce(Fabric& fabric, const Order& order, std::span<float> gradient) {
  prepare_buckets(fabric, order, gradient);
  begin_ = end_ = {};
  run(gradient);
}

void GradientExchange::start(Fabric& fabric, const Order& order, std::span<float> gradient,
                             Clock::time_point begin, Clock::time_point end) {
  prepare_buckets(fabric, order, gradient);
  begin_ = begin;
  end_ = end;
  failure_ = nullptr;
  beside_ = std::jthread([this, gradient] {
    try {
      run(gradient);
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

void GradientExchange::finish_exchange() {
  if (beside_.joinable()) beside_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

CollectiveAlgorithm GradientExchange::algorithm() const {
  std::size_t most = 0;
  for (const Bucket& bucket : pending_->buckets) {
    if (bucket.where.rule.codec == Codec::none) most = std::max(most, bucket.where.count);
  }
  if (most == 0) return CollectiveAlgorithm::automatic;
  return fabric_->algorithm(static_cast<double>(most * sizeof(float)));
}

void GradientExchange::wait_for_release(std::size_t bucket) {
  const auto count = static_cast<double>(pending_->buckets.size());
  const double share = static_cast<double>(bucket + 1) / count;
  const auto until = begin_ + std::chrono::duration_cast<Clock::duration>((end_ - begin_) * share);
  std::unique_lock lock(mutex_);
  if (stopping_.wait_until(lock, until, [this] { return stopped_; })) {
    throw FabricBroken("this rank stops");
  }
}

void GradientExchange::run(std::span<float> gradient) {
  // From the gradient's end, in three stages a bucket: bucket t is sent, t - 1 summed, t - 2 taken.
  // All ranks do so in this order, which makes the order on every link the same at both ends.
  const std::size_t count = pending_->buckets.size();
  own_square_ = square_sum(gradient);
  const auto at = [&](std::size_t turn) -> Bucket& { return pending_->buckets[count - 1 - turn]; };
  const auto values = [&](const Bucket& bucket) {
    return gradient.subspan(bucket.where.offset, bucket.where.count);
  };
  auto start = Clock::now();
  for (std::size_t turn = 0; turn < count + 2; ++turn) {
    if (turn < count) {
      wait_for_release(turn);
      if (turn == 0) start = Clock::now();
      send_parts(at(turn), values(at(turn)));
    }
    if (turn >= 1 && turn - 1 < count) send_sum(at(turn - 1), values(at(turn - 1)));
    if (turn >= 2) receive_sums(at(turn - 2), values(at(turn - 2)));
  }
  pending_->whole = true;
  seconds_ = to_seconds(since(start));
  total_square_ = square_sum(gradient);
}

void GradientExchange::send_parts(Bucket& bucket, std::span<float> values) {
  const CodecRule& rule = bucket.where.rule;
  // A rank that is alone asks too: its fabric may have been broken.
  if (rule.codec == Codec::none || fabric_->ranks() == 1) return fabric_->all_reduce(values);
  if (rule.codec == Codec::power_sgd) return reduce_factors(bucket, values);
  for (std::uint32_t step = 1; step < fabric_->ranks(); ++step) {
    const std::uint32_t to = (fabric_->rank() + step) % fabric_->ranks();
    const std::span<float> theirs = part(values, to, fabric_->ranks());
    std::vector<std::byte> code(bucket.codec->encoded_size(theirs.size()));
    bucket.codec->encode_values(theirs, bucket.to_rank[to], code);
    fabric_->send_to(to, code);
  }
}

void GradientExchange::send_sum(Bucket& bucket, std::span<float> values) {
  if (fabric_->ranks() == 1 || !in_two_steps(bucket.where.rule)) return;
  const std::span<float> own = part(values, fabric_->rank(), fabric_->ranks());
  std::vector<float> sum(own.size(), 0.0F), theirs(own.size());
  std::vector<std::byte> code(bucket.codec->encoded_size(own.size()));
  for (std::uint32_t rank = 0; rank < fabric_->ranks(); ++rank) {
    if (rank != fabric_->rank()) {
      fabric_->receive_from(rank, code);
      bucket.codec->decode_values(code, theirs);
    }
    const std::span<const float> each = rank == fabric_->rank() ? own : std::span<float>(theirs);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each[i];
  }
  bucket.codec->encode_values(sum, bucket.of_sum, code);
  for (std::uint32_t step = 1; step < fabric_->ranks(); ++step) {
    fabric_->send_to((fabric_->rank() + step) % fabric_->ranks(), code);
  }
  bucket.sum_code = std::move(code);
}

void GradientExchange::receive_sums(Bucket& bucket, std::span<float> values) {
  if (fabric_->ranks() == 1 || !in_two_steps(bucket.where.rule)) return;
  bucket.codec->decode_values(bucket.sum_code, part(values, fabric_->rank(), fabric_->ranks()));
  std::vector<std::byte> code;
  for (std::uint32_t rank = 0; rank < fabric_->ranks(); ++rank) {
    if (rank == fabric_->rank()) continue;
    const std::span<float> theirs = part(values, rank, fabric_->ranks());
    code.resize(bucket.codec->encoded_size(theirs.size()));
    fabric_->receive_from(rank, code);
    bucket.codec->decode_values(code, theirs);
  }
}

void GradientExchange::reduce_factors(Bucket& bucket, std::span<float> values) {
  // A column-major tensor is, as it lies in memory, the row-major transpose.
  const FactorShape shape(bucket.where.rule, bucket.where.columns, bucket.where.rows);
  CodecState& state = bucket.to_rank[0];
  const bool feedback = bucket.where.rule.error_feedback;
  refresh_basis(shape, state.basis);
  if (feedback) {
    state.residual.resize(values.size(), 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) state.residual[i] += values[i];
  }
  const std::span<const float> matrix = feedback ? std::span<float>(state.residual) : values;
  std::vector<float> left(shape.left_size()), own_right(shape.right_size());
  project(shape, matrix, state.basis, left);
  fabric_->all_reduce(left);
  orthonormalise(shape, left);
  project_back(shape, matrix, left, own_right);
  state.basis = own_right;
  fabric_->all_reduce(state.basis);
  if (feedback) {
    std::vector<float> sent(values.size());
    multiply(shape, left, own_right, sent);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      state.residual[i] = arithmetic::residual_of(state.residual[i], sent[i]);
    }
  }
  multiply(shape, left, state.basis, values);
}

}  // namespace orrery::live
