// The largest or smallest of rows. T0: any type to calculate with. Entry: topk. A row is gone over
// once for each element that is wanted: meant for few.
#include "kernels/team.h"
#include "kernels/topk_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// What is no number is larger than all that are.
struct Larger {
  TUNABLEOP_MEMBER bool Before(Math x, Math y) { return x > y || (IsNan(x) && !IsNan(y)); }
};
struct Smaller {
  TUNABLEOP_MEMBER bool Before(Math x, Math y) { return x < y || (!IsNan(x) && IsNan(y)); }
};

template <class Order>
struct First {
  TUNABLEOP_MEMBER Math Of(Math x, Math y) { return Order::Before(y, x) ? y : x; }
};

// The best of what comes after `value` at `place`, in the whole row; every thread gets it.
template <class Order>
TUNABLEOP_DEVICE void Next(const TopKArgs& args, const Team& team, const T* row, Math& value,
                           Int64& place) {
  Math best = Number<T>::Read(row[0]);
  Int64 at = -1;
  for (Int64 i = team.lane; i < args.axis; i += team.lanes) {
    const Math x = Number<T>::Read(row[i * args.inner]);
    const bool after =
        place < 0 || Order::Before(value, x) || (!Order::Before(x, value) && i > place);
    if (after && (at < 0 || Order::Before(x, best))) {
      best = x;
      at = i;
    }
  }
  // Threads that have found nothing take the value of one that has.
  const Int64 finder = Combine<Smallest>(team, at < 0 ? args.axis : at);
  if (at < 0) best = Number<T>::Read(row[(finder < args.axis ? finder : 0) * args.inner]);
  value = Combine<First<Order>>(team, best);
  const bool mine = at >= 0 && !Order::Before(value, best);
  place = Combine<Smallest>(team, mine ? at : args.axis);
}

template <class Order>
TUNABLEOP_DEVICE void Run(const TopKArgs& args) {
  const Team team = TeamOf(args.lanes);
  for (Int64 number = team.number; number < args.rows; number += team.count) {
    const Int64 outer = number / args.inner;
    const Int64 within = number - outer * args.inner;
    const T* const row = static_cast<const T*>(args.x) + outer * args.axis * args.inner + within;
    const Int64 first = outer * args.kept * args.inner + within;
    Math value = 0;
    Int64 place = -1;
    for (Int64 k = 0; k < args.kept; ++k) {
      Next<Order>(args, team, row, value, place);
      if (team.lane != 0) continue;
      static_cast<T*>(args.values)[first + k * args.inner] = row[place * args.inner];
      args.places[first + k * args.inner] = place;
    }
  }
}

TUNABLEOP_KERNEL(topk, TopKArgs) {
  if (args.smallest != 0) {
    Run<Smaller>(args);
  } else {
    Run<Larger>(args);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
