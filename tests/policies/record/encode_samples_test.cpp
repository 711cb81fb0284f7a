#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/samples_book.hpp"
#include "tests/policies/random_seam.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// A wish for each part of the telemetry of job 2.
std::vector<SamplesRead> every_wish() {
  std::vector<SamplesRead> wishes;
  for (int what = SamplesRead::What_MIN; what <= SamplesRead::What_MAX; ++what) {
    const bool is_table = what <= SamplesRead::LINKS;
    const std::size_t columns =
        is_table ? fields_of(static_cast<SampleTable>(what)).size() : std::size_t{0};
    for (std::uint32_t column = 0; column <= columns; ++column) {
      SamplesRead& wish = wishes.emplace_back();
      wish.set_what(static_cast<SamplesRead::What>(what));
      wish.set_job(2);
      wish.set_latest(what == SamplesRead::SUMMARY ? 3 : 0);
      wish.set_column(column);
    }
  }
  return wishes;
}

TEST(SamplesBook, GivesWhatWasReadAndSaysWhatWasNot) {
  toy::Dice dice(4);
  const toy::RandomSamples drawn(dice);
  toy::HandMade source;
  source.of_ranks = drawn.ranks;
  source.of_devices = drawn.devices;
  source.of_links = drawn.links;
  source.of_collectives = drawn.collectives;
  source.summed = {
      .ranks = 9, .micro_batch_time = 0.25, .deviation = 0.5, .age = 3, .latest = source.of_ranks};
  SamplesBook book;
  for (const SamplesRead& wish : every_wish()) {
    const SamplesRead read = read_samples(source, wish);
    book.add(read);
    EXPECT_EQ(read_samples(book, wish).SerializeAsString(), read.SerializeAsString());
  }
  for (std::size_t i = 0; i < drawn.ranks.size(); ++i) {
    EXPECT_EQ(book.ranks({2})[i].rank, drawn.ranks[i].rank);
    EXPECT_EQ(book.ranks({2})[i].step, drawn.ranks[i].step);
    EXPECT_EQ(book.ranks({2})[i].job, JobId{2});
    const Sample<double> given = drawn.ranks[i].wait_time, got = book.ranks({2})[i].wait_time;
    ASSERT_EQ(got.is_known(), given.is_known());
    EXPECT_EQ(got.value, given.is_known() ? given.value : 0);
    EXPECT_EQ(got.age, given.is_known() ? given.age : 0);
  }
  EXPECT_EQ(book.summary({2}, 3).latest.size(), drawn.ranks.size());
  EXPECT_EQ(book.missing_read(), nullptr);
  EXPECT_TRUE(book.ranks({1}).empty());
  ASSERT_NE(book.missing_read(), nullptr);
  EXPECT_EQ(book.missing_read()->job(), 1u);
  EXPECT_EQ(book.missing_read()->what(), SamplesRead::RANKS);
  EXPECT_EQ(book.summary({2}, 4).ranks, 0u) << "another count is another answer";
}

TEST(SamplesBook, NeighboursThatAreEqualAreOneEntry) {
  toy::HandMade source;
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    RankSample sample;
    sample.rank = {rank};
    sample.step = 7;
    sample.micro_batch_time = {rank < 60 ? 0.5 : 0.25, 10, Origin::measured};
    source.of_ranks.push_back(sample);
  }
  SamplesRead wish;
  const SamplesRead rows = read_samples(source, wish);
  EXPECT_EQ(rows.rows().ids_size(), 1);
  EXPECT_EQ(rows.rows().steps_size(), 1);
  wish.set_column(2);
  const SamplesRead times = read_samples(source, wish);
  EXPECT_EQ(times.values().values_size(), 2);
  EXPECT_EQ(times.values().ages_size(), 1);
  SamplesBook book;
  book.add(rows);
  book.add(times);
  EXPECT_EQ(book.column(SampleField::micro_batch_time, {0})->values[59], 0.5);
  EXPECT_EQ(book.column(SampleField::micro_batch_time, {0})->values[60], 0.25);
  EXPECT_EQ(book.rows(SampleTable::ranks, {0})->steps[99], 7u);
}

TEST(SamplesBook, ImpossibleTablesAreRefused) {
  toy::HandMade source;
  source.of_ranks.resize(2);
  source.of_ranks[0].wait_time = {1, 0, Origin::measured};
  SamplesRead wish;
  const SamplesRead rows = read_samples(source, wish);
  wish.set_column(3);
  const SamplesRead waits = read_samples(source, wish);
  const auto is_refused = [&](const std::function<void(SamplesRead&)>& spoil) {
    SamplesBook book;
    book.add(rows);
    SamplesRead spoilt = waits;
    spoil(spoilt);
    try {
      book.add(spoilt);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(is_refused([](SamplesRead&) {}));
  EXPECT_TRUE(is_refused([](SamplesRead& read) { read.set_column(7); }));
  EXPECT_TRUE(is_refused([](SamplesRead& read) { read.mutable_values()->add_values(1); }));
  EXPECT_TRUE(is_refused([](SamplesRead& read) { read.mutable_values()->add_counts(1); }));
  EXPECT_TRUE(is_refused([](SamplesRead& read) { read.mutable_values()->clear_ages(); }));
  EXPECT_TRUE(is_refused([](SamplesRead& read) { read.mutable_values()->set_origins("\2"); }));
  EXPECT_TRUE(is_refused([](SamplesRead& read) {
    for (int i = 0; i < 2; ++i) read.mutable_values()->add_counts(1u << 31);
  })) << "more than the memory holds";
}

TEST(SamplesBook, AMissingSampleTakesNoBytes) {
  toy::HandMade source;
  source.of_devices = {{.gpu = {1},
                        .utilization = {0.0, 0, Origin::measured},
                        .memory_bandwidth = {},
                        .memory_used = {},
                        .power = {}}};
  SamplesBook book;
  for (const SamplesRead& wish : every_wish()) book.add(read_samples(source, wish));
  EXPECT_TRUE(book.devices({2})[0].utilization.is_known());
  EXPECT_FALSE(book.devices({2})[0].power.is_known());
}

TEST(SamplesBook, SamplesByRowOfEarlierFormatsBecomeColumns) {
  SamplesRead old;
  old.set_what(SamplesRead::DEVICES);
  old.set_job(2);
  DeviceRecord& device = *old.add_devices();
  device.set_gpu(5);
  device.mutable_power()->set_value(400);
  device.mutable_power()->set_age(3);
  SamplesBook book;
  for (const SamplesRead& read : columns_of_rows(old)) book.add(read);
  ASSERT_EQ(book.devices({2}).size(), 1u);
  EXPECT_EQ(book.devices({2})[0].gpu, GpuId{5});
  EXPECT_EQ(book.devices({2})[0].power.value, 400);
  EXPECT_EQ(book.devices({2})[0].power.age, 3);
  EXPECT_FALSE(book.devices({2})[0].utilization.is_known());
  EXPECT_EQ(book.missing_read(), nullptr);
  device.mutable_power()->set_origin(9);
  EXPECT_THROW(columns_of_rows(old), Error);
}

}  // namespace
}  // namespace orrery
