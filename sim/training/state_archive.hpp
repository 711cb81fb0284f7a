// Conversion of the state of a training job to bytes and back. Every struct of the state names its
// fields once, in a function fields(archive, value), which serves both directions. Equal states
// give equal bytes. One thread.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <google/protobuf/message_lite.h>

#include "core/error.hpp"
#include "policies/compression/codec_uses.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/event.hpp"
#include "policies/seam/samples.hpp"
#include "traces/report/sample_count.hpp"

namespace orrery::sim {

/// True for types without padding, which are copied byte by byte.
template <class T>
concept WithoutPadding = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                         (std::is_trivially_copyable_v<T> &&
                          std::has_unique_object_representations_v<T>);

/// Writer of a state: archive(a, b) appends the bytes of both values. For example, StateWriter
/// archive(bytes) and archive(std::map<Step, double>{{3, 0.5}}) append a length and one pair.
class StateWriter {
 public:
  static constexpr bool kReads = false;
  /// Constructs a writer; `bytes` must outlive the writer.
  explicit StateWriter(std::string& bytes) : write_(bytes) {}

  template <class... Ts>
  void operator()(const Ts&... values) {
    (put_value(values), ...);
  }

 private:
  template <WithoutPadding T>
  void put_value(const T& value) {
    write_(value);
  }
  void put_value(const std::string& text) { write_(text); }
  void put_value(const google::protobuf::MessageLite& message) {
    write_(message.SerializeAsString());
  }
  template <class T>
  void put_value(const std::optional<T>& value) {
    write_(value.has_value());
    if (value) put_value(*value);
  }
  template <class A, class B>
  void put_value(const std::pair<A, B>& value) {
    put_value(value.first);
    put_value(value.second);
  }
  template <class T, std::size_t N>
    requires(!WithoutPadding<std::array<T, N>>)
  void put_value(const std::array<T, N>& values) {
    for (const T& each : values) put_value(each);
  }
  template <class T>
  void put_value(const std::vector<T>& values) {
    put_all(values);
  }
  template <class K, class V>
  void put_value(const std::map<K, V>& values) {
    put_all(values);
  }
  template <class T>
  void put_value(const std::set<T>& values) {
    put_all(values);
  }
  template <class T>
    requires(!WithoutPadding<T> && !std::is_base_of_v<google::protobuf::MessageLite, T>)
  void put_value(const T& value) {
    fields(*this, const_cast<T&>(value));  // a writer changes nothing
  }
  template <class Values>
  void put_all(const Values& values) {
    write_(static_cast<std::uint64_t>(values.size()));
    for (const auto& each : values) put_value(each);
  }

  ByteWriter write_;
};

/// Reader of a state in the order in which StateWriter wrote it: archive(a, b) replaces both
/// values. Throws an internal Error if too few bytes remain.
class StateReader {
 public:
  static constexpr bool kReads = true;
  /// Constructs a reader; the characters of `bytes` must outlive the reader.
  explicit StateReader(std::string_view bytes) : read_(bytes) {}

  template <class... Ts>
  void operator()(Ts&... values) {
    (read_value(values), ...);
  }
  /// Returns true if no bytes remain.
  bool is_at_end() const { return read_.is_at_end(); }

 private:
  template <WithoutPadding T>
  void read_value(T& value) {
    read_(value);
  }
  void read_value(std::string& text) { read_(text); }
  void read_value(google::protobuf::MessageLite& message) {
    std::string bytes;
    read_(bytes);
    ensure(message.ParseFromString(bytes), "a written state has whole messages");
  }
  template <class T>
  void read_value(std::optional<T>& value) {
    bool known = false;
    read_(known);
    value.reset();
    if (known) read_value(value.emplace());
  }
  template <class A, class B>
  void read_value(std::pair<A, B>& value) {
    read_value(value.first);
    read_value(value.second);
  }
  template <class T, std::size_t N>
    requires(!WithoutPadding<std::array<T, N>>)
  void read_value(std::array<T, N>& values) {
    for (T& each : values) read_value(each);
  }
  template <class T>
  void read_value(std::vector<T>& values) {
    values.assign(read_.size(), T{});
    for (T& each : values) read_value(each);
  }
  template <class K, class V>
  void read_value(std::map<K, V>& values) {
    values.clear();
    for (std::size_t left = read_.size(); left > 0; --left) {
      std::pair<K, V> each{};
      read_value(each);
      values.insert(values.end(), std::move(each));
    }
  }
  template <class T>
  void read_value(std::set<T>& values) {
    values.clear();
    for (std::size_t left = read_.size(); left > 0; --left) {
      T each{};
      read_value(each);
      values.insert(values.end(), std::move(each));
    }
  }
  template <class T>
    requires(!WithoutPadding<T> && !std::is_base_of_v<google::protobuf::MessageLite, T>)
  void read_value(T& value) {
    fields(*this, value);
  }

  ByteReader read_;
};

// Structs of other rooms with padding.
template <class Archive>
void fields(Archive& archive, Part& of) {
  archive(of.kind, of.index);
}
template <class Archive>
void fields(Archive& archive, Removal& of) {
  archive(of.at, of.at_step, of.back_at, of.back_at_step);
}
template <class Archive>
void fields(Archive& archive, PartState& of) {
  archive(of.health, of.rate, of.since, of.removal);
}
template <class Archive>
void fields(Archive& archive, PartChanged& of) {
  archive(of.part, of.to);
}
template <class Archive>
void fields(Archive& archive, SaveDone& of) {
  archive(of.job, of.step, of.tier, of.stalled, of.took, of.durable, of.holders);
}
template <class Archive>
void fields(Archive& archive, CollectiveSample& of) {
  archive(of.job, of.step, of.kind, of.algorithm, of.bytes, of.ranks, of.exposed);
}
template <class Archive>
void fields(Archive& archive, CollectiveRule& of) {
  archive(of.kind, of.from_bytes, of.from_ranks, of.algorithm, of.from_nodes);
}
template <class Archive>
void fields(Archive& archive, CodecRule& of) {
  archive(of.bucket_class, of.codec, of.parameter, of.error_feedback);
}
template <class Archive>
void fields(Archive& archive, ParallelLayout& of) {
  archive(of.tensor, of.context, of.pipeline, of.data, of.pipeline_last);
}
template <class Archive>
void fields(Archive& archive, Standing& of) {
  std::vector<GpuId> gpus = of.gpus.to_vector();
  archive(gpus, of.layout);
  if constexpr (Archive::kReads) of.gpus = GpuRuns(gpus);
}
template <class Archive>
void fields(Archive& archive, SampleCount& of) {
  auto runs = of.runs();
  archive(runs);
  if constexpr (Archive::kReads) {
    of = {};
    for (const auto& [steps, each] : runs) of.add_steps(steps, each);
  }
}
template <class Archive>
void fields(Archive& archive, CodecUses& of) {
  std::vector<CodecUse> uses = of.uses();
  archive(uses);
  if constexpr (Archive::kReads) of.set_uses(std::move(uses));
}

}  // namespace orrery::sim
