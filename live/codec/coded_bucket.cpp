#include "live/codec/coded_bucket.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {

CodedBucket::CodedBucket(const CodecRule& rule, std::size_t count)
    : codec_(make_codec(rule)), count_(count) {}

std::size_t CodedBucket::part_size() const {
  const std::size_t ranks = pending_.members.size();
  return (count_ + ranks - 1) / ranks;
}

void CodedBucket::add_left_out(const Memory& memory) {
  const std::size_t size = (count_ + memory.members.size() - 1) / memory.members.size();
  const auto add = [this](const CodecState& state, std::size_t from) {
    for (std::size_t i = 0; i < state.residual.size() && from + i < count_; ++i) {
      values_[from + i] += state.residual[i];
    }
  };
  for (std::size_t i = 0; i < memory.to_member.size(); ++i) add(memory.to_member[i], i * size);
  add(memory.of_sum, memory.own * size);
}

std::vector<std::byte> CodedBucket::encode_parts(std::span<const float> values,
                                                 const std::vector<std::size_t>& members,
                                                 std::size_t own) {
  const bool is_same = committed_ && committed_->members == members;
  pending_ = is_same ? *committed_ : Memory{members, own, {}, {}};
  pending_.to_member.resize(members.size());
  values_.assign(members.size() * part_size(), 0.0F);
  std::copy(values.begin(), values.end(), values_.begin());
  if (committed_ && !is_same) add_left_out(*committed_);
  const std::size_t size = codec_->encoded_size(part_size());
  std::vector<std::byte> codes(members.size() * size);
  for (std::size_t to = 0; to < members.size(); ++to) {
    if (to == own) continue;
    codec_->encode_values(part_of(to), pending_.to_member[to],
                          std::span<std::byte>(codes).subspan(to * size, size));
  }
  return codes;
}

std::vector<std::byte> CodedBucket::encode_sum(std::span<const std::byte> received) {
  const std::size_t size = codec_->encoded_size(part_size());
  const std::span<float> own = part_of(pending_.own);
  std::vector<float> sum(own.size(), 0.0F), theirs(own.size());
  for (std::size_t from = 0; from < pending_.members.size(); ++from) {
    std::span<const float> each = own;
    if (from != pending_.own) {
      codec_->decode_values(received.subspan(from * size, size), theirs);
      each = theirs;
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each[i];
  }
  std::vector<std::byte> code(size);
  codec_->encode_values(sum, pending_.of_sum, code);
  return code;
}

void CodedBucket::decode_sums(std::span<const std::byte> gathered, std::span<float> values) const {
  const std::size_t part = part_size(), size = codec_->encoded_size(part);
  std::vector<float> sum(part);
  for (std::size_t of = 0; of < pending_.members.size(); ++of) {
    codec_->decode_values(gathered.subspan(of * size, size), sum);
    const std::size_t from = std::min(of * part, count_), until = std::min(from + part, count_);
    std::copy_n(sum.begin(), until - from, values.begin() + static_cast<std::ptrdiff_t>(from));
  }
}

void CodedBucket::commit_exchange() {
  if (!pending_.members.empty()) committed_ = pending_;
}

double CodedBucket::sent_bytes() const {
  if (pending_.members.empty()) return 0;
  return 2.0 * static_cast<double>(pending_.members.size() - 1) *
         static_cast<double>(codec_->encoded_size(part_size()));
}

}  // namespace orrery::live
