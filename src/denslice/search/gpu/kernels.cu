// Search on a GPU: posting lists give scores, scores give candidates, and candidates are ranked. See docs/gpu.md.
//
// A tile has some thousand documents, whose scores fit the shared memory of a thread block. Scores of stage one are
// the same whole numbers as on the CPU (search/cpu/postings.py), so both choose the same documents. layout.py has the
// numbers that are not defined here, and the structs as numpy types.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ALL 0xffffffffu
#define LEVELS 255.0
#define LARGEST_SCORE 2147483647u

#define EVERY_CANDIDATE 1u  // flags of a query: all candidates are scored exactly at once,
#define DENSE_OF_CANDIDATES 2u // with their dense scores
#define BOUNDS 4u // only stage one runs: the bound of a candidate is its score
#define EXTRA 8u // every document has a dense score, which is added before candidates are chosen

struct __align__(8) Entry { // the part of a posting list in one section of its block
    u32 start; // of its groups of 8 postings
    u16 groups;
    u16 maximum; // largest weight of the whole list, the bits of a float16
};

struct Tile { // the rows of one section of one block of a segment
    const u32 *key_starts; // (keys + 1), where the lists of each key begin
    const u16 *list_blocks; // the block of each list
    const Entry *entries; // one for each list, of the tile's section
    const uint4 *rows;   // the rows of 8 postings in a group, counted from the first row of the tile
    const uint2 *values; // the values of 8 postings in a group
    const u32 *row_starts; // of the tile's rows; the next three are the documents' weights, if the GPU has them
    const void *row_keys;
    const u16 *row_weights;
    const uint4 *dense; // of the tile's rows, or of all passages of the segment, if there are dense vectors
    const u32 *passage_starts; // the first passage of each of the tile's rows; null if each row is one passage
    const float *passage_shares; // of all passages of the segment
    u64 weights; // the number of weights of the segment
    u32 keys;
    u32 first; // position of the first row, over all segments
    u32 count; // the number of rows
    u16 block, section, blocks, wide_keys;
    u32 products; // where those of the segment's passages begin; those of the tile's rows if each is one passage
};

struct Query {
    double unit, reach, unseen; // units of a score of 1; highest lexical score; most that skipped weights can add
    float lowest; // the lowest dense score
    u32 first_key, keys, strong; // strong keys come first
    u32 k, most, margin, spare, flags; // there are at most `most` candidates, or any number if it is 0
    u32 candidates, finalists, returned; // counts, 0 at first
    u32 first_edge; // at least k documents have this score or more
    u32 least; // the lowest exact score of the first candidates, as ordered bits
    u32 dense_lowest, dense_highest; // as ordered bits
    u64 cut; // candidates below it are dropped
    u32 hold; // the number of documents that stage one must not miss
    float best; // the share of the best of many passages in the dense score of a document
};

// --- numbers

__device__ __forceinline__ float half_bits(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ u32 ordered(float value) { // bits that rise with the number
    u32 bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float unordered(u32 bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

__device__ __forceinline__ u32 bin_of(u32 score) { // 64 bins for each power of two
    int shift = max(0, 25 - __clz(score));
    return (shift << 6) + (score >> shift);
}

// Where the count of a bin is kept. Scores crowd in a few bins; side by side, one part of the cache would count all.
__device__ __forceinline__ u32 place_of(u32 bin) { return bin * 65 & (BINS - 1); }

__device__ __forceinline__ u32 edge_of(u32 bin) { // the lowest score of a bin
    return bin < 128 ? bin : ((bin & 63) + 64) << ((bin >> 6) - 1);
}

__device__ __forceinline__ u32 warp_max(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(ALL, value);
#else
    for (int reach = 16; reach; reach >>= 1) value = max(value, __shfl_xor_sync(ALL, value, reach));
    return value;
#endif
}

__device__ __forceinline__ u32 warp_sum(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL, value);
#else
    for (int reach = 16; reach; reach >>= 1) value += __shfl_xor_sync(ALL, value, reach);
    return value;
#endif
}

__device__ __forceinline__ u32 block_scan(u32 value, u32 *totals) { // inclusive, over the threads of a block
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int reach = 1; reach < 32; reach <<= 1) {
        u32 before = __shfl_up_sync(ALL, value, reach);
        if (lane >= reach) value += before;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        u32 total = lane < blockDim.x >> 5 ? totals[lane] : 0;
        for (int reach = 1; reach < 32; reach <<= 1) {
            u32 before = __shfl_up_sync(ALL, total, reach);
            if (lane >= reach) total += before;
        }
        totals[lane] = total;
    }
    __syncthreads();
    value += warp ? totals[warp - 1] : 0;
    __syncthreads();
    return value;
}

// Returns the bin in which the count of scores, from the highest down, reaches `wanted`, or 0 if it never does. A block
// must have 1024 threads. found[1] is then the number of scores above that bin.
__device__ u32 bin_reaching(const u32 *bins, u32 wanted, u32 *totals, u32 *found) {
    const u32 EACH = BINS / 1024;
    u32 top = BINS - 1 - threadIdx.x * EACH, here = 0;
    if (threadIdx.x == 0) found[0] = found[1] = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) here += bins[place_of(top - i)];
    u32 reached = block_scan(here, totals);
    if (wanted && reached - here < wanted && wanted <= reached) {
        u32 count = reached - here, bin = top;
        while (count + bins[place_of(bin)] < wanted) count += bins[place_of(bin--)];
        found[0] = bin;
        found[1] = count;
    }
    __syncthreads();
    u32 bin = found[0];
    __syncthreads();
    return bin;
}

// --- upload of a segment

// Returns the place of a list's section among all: the pieces of a tile lie together, so that scoring reads few pages.
__device__ __forceinline__ u32 piece_of(const u32 *block_starts, u32 block, u32 list, u32 section, u32 sections) {
    u32 first = block_starts[block], lists = block_starts[block + 1] - first;
    return first * sections + section * lists + (list - first);
}

// Counts the groups of 8 postings in each section of a list, and writes the entries without their starts, section after
// section. A warp reads a list, whose rows may have any order. `order` and `blocks` are sorted by key.
extern "C" __global__ void measure(const u32 *order, const u32 *list_starts, const u16 *rows, const u16 *maxima,
                                   const u16 *blocks, const u32 *block_starts, Entry *entries, u32 *pieces, u32 lists,
                                   u32 sections, u32 section_rows) {
    u32 lane = threadIdx.x & 31, at = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (at >= lists) return;
    u32 list = order[at], end = list_starts[list + 1], counts[SECTIONS] = {};
    for (u32 p = list_starts[list] + lane; p < end; p += 32) {
        u32 section = rows[p] / section_rows;
#pragma unroll
        for (u32 i = 0; i < SECTIONS; i++) counts[i] += section == i;
    }
#pragma unroll
    for (u32 section = 0; section < SECTIONS; section++) {
        u32 groups = (warp_sum(counts[section]) + 7) >> 3;
        if (lane || section >= sections) continue;
        entries[(u64)section * lists + at] = {0, (u16)groups, maxima[list]};
        pieces[piece_of(block_starts, blocks[at], list, section, sections)] = groups;
    }
}

// Places the postings of each section so that 32 threads with 8 postings each use different banks of shared memory, if
// possible: sorted by their rank among those of the same bank, then by bank, the k-th 32 go to the k-th place of 32
// groups. Padding of the last group has value 0. A warp arranges a list.
extern "C" __global__ void arrange(const u32 *order, const u32 *list_starts, const u16 *rows, const u8 *values,
                                   const u16 *blocks, const u32 *block_starts, Entry *entries, const u32 *before_pieces,
                                   u16 *to_rows, u8 *to_values, u32 lists, u32 sections, u32 section_rows) {
    extern __shared__ u32 ranks[]; // for each warp 2 · RANKS: banks with a posting of each rank, and postings before
    const u32 RANKS = (section_rows + 31) / 32;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, at = blockIdx.x * (blockDim.x >> 5) + warp;
    if (at >= lists) return;
    u32 *alive = ranks + warp * 2 * RANKS, *before = alive + RANKS;
    u32 list = order[at], from = list_starts[list], end = list_starts[list + 1];
    for (u32 section = 0; section < sections; section++) {
        Entry &entry = entries[(u64)section * lists + at];
        u32 start = before_pieces[piece_of(block_starts, blocks[at], list, section, sections)], groups = entry.groups;
        if (lane == 0) entry.start = start;
        if (groups == 0) continue;
        u32 base = section * section_rows, mine = 0; // rows of other sections are `section_rows` or more after the base
        for (u32 p = from; p < end; p++) {
            u32 row = rows[p] - base;
            mine += row < section_rows && (row & 31) == lane;
        }
        u32 most = min(warp_max(mine), RANKS), sum = 0;
        for (u32 rank = 0; rank < most; rank++) {
            u32 banks = __ballot_sync(ALL, mine > rank);
            if (lane == 0) {
                alive[rank] = banks;
                before[rank] = sum;
            }
            sum += __popc(banks);
        }
        __syncwarp();
        u32 count = warp_sum(mine), rank = 0;
        u64 out = (u64)start * 8;
        for (u32 p = from; p < end; p++) {
            u32 row = rows[p] - base;
            if ((row & 31) != lane || row >= section_rows || rank >= most) continue; // the last in damaged files
            u32 place = before[rank] + __popc(alive[rank] & ((1u << lane) - 1));
            rank++;
            u32 unit = place >> 8, inside = place & 255, lanes = min(32u, groups - unit * 32);
            u64 to = out + unit * 256 + (inside % lanes) * 8 + inside / lanes;
            if (place >= groups * 8) continue;
            to_rows[to] = (u16)row;
            to_values[to] = values[p];
        }
        for (u32 place = count + lane; place < groups * 8; place += 32) {
            u32 unit = place >> 8, inside = place & 255, lanes = min(32u, groups - unit * 32);
            u64 to = out + unit * 256 + (inside % lanes) * 8 + inside / lanes;
            to_rows[to] = 0;
            to_values[to] = 0;
        }
        __syncwarp();
    }
}

// --- start of a search

// Writes the weights of queries to a table over the vocabulary, sets the bits of their keys, and clears counts.
extern "C" __global__ void begin(const Query *queries, const u32 *keys, const float *weights, float *table, u32 *sieves,
                                 u32 *bins, u32 vocab) {
    u32 q = blockIdx.y, at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    const Query &query = queries[q];
    for (u32 i = at; i < 2 * BINS; i += step) bins[q * 2 * BINS + i] = 0;
    for (u32 i = at; i < query.keys; i += step) {
        u32 key = keys[query.first_key + i], bit = key & (SIEVE - 1);
        table[(u64)q * vocab + key] = weights[query.first_key + i];
        atomicOr(sieves + q * (SIEVE / 32) + (bit >> 5), 1u << (bit & 31));
    }
}

// --- dense scores of every document

__device__ __forceinline__ float dot8(uint4 group, const float *query, float total) {
    u32 pairs[4] = {group.x, group.y, group.z, group.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        total = fmaf(half_bits((u16)pairs[i]), query[2 * i], total);
        total = fmaf(half_bits((u16)(pairs[i] >> 16)), query[2 * i + 1], total);
    }
    return total;
}

// Keeps the lowest and the highest dense score of a query, given those of some documents as ordered bits.
__device__ __forceinline__ void keep_range(Query *query, u32 lowest, u32 highest) {
    volatile Query &known = *query;
    if (lowest < known.dense_lowest) atomicMin(&query->dense_lowest, lowest);
    if (highest > known.dense_highest) atomicMax(&query->dense_highest, highest);
}

// DENSE_LANES threads read a row, each DENSE_STEPS groups of 8 numbers. A row is read once for N queries. If documents
// have passages, tiles and rows are those of passages: `queries` is null then, because only `pool` knows the scores.
template <int N>
__device__ __forceinline__ void dense_rows(const Tile *tiles, Query *queries, const float *vectors, float *scores,
                                           u32 tile_rows, u32 card_rows, u32 width) {
    const int ROWS = 32 / DENSE_LANES, ROUNDS = DENSE_STEPS * N <= 4 ? 4 : 2;
    u32 lane = threadIdx.x & 31, part = lane % DENSE_LANES, in_warp = lane / DENSE_LANES, q = blockIdx.y * N;
    float query[N][DENSE_STEPS * 8], lowest[N], highest[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        lowest[n] = 3e38f;
        highest[n] = -3e38f;
#pragma unroll
        for (int i = 0; i < DENSE_STEPS; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                u32 at = (i * DENSE_LANES + part) * 8 + j;
                query[n][i * 8 + j] = at < width ? vectors[(q + n) * width + at] : 0;
            }
    }
    u32 warps = gridDim.x * (blockDim.x >> 5), groups = width / 8;
    for (u32 w = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); w < card_rows / CHUNK; w += warps) {
        u32 first = w * CHUNK;
        const Tile &tile = tiles[first / tile_rows];
        u32 base = first % tile_rows, count = tile.count;
        for (u32 r = 0; r < CHUNK && base + r < count; r += ROWS * ROUNDS) {
            uint4 data[ROUNDS][DENSE_STEPS];
#pragma unroll
            for (int a = 0; a < ROUNDS; a++)
#pragma unroll
                for (int i = 0; i < DENSE_STEPS; i++) {
                    u32 row = base + r + a * ROWS + in_warp, group = i * DENSE_LANES + part;
                    data[a][i] = make_uint4(0, 0, 0, 0);
                    if (row < count && group < groups) data[a][i] = __ldcs(tile.dense + (u64)row * groups + group);
                }
#pragma unroll
            for (int a = 0; a < ROUNDS; a++) {
                u32 row = r + a * ROWS + in_warp;
#pragma unroll
                for (int n = 0; n < N; n++) {
                    float total = 0;
#pragma unroll
                    for (int i = 0; i < DENSE_STEPS; i++) total = dot8(data[a][i], query[n] + i * 8, total);
#pragma unroll
                    for (int reach = DENSE_LANES / 2; reach; reach >>= 1)
                        total += __shfl_xor_sync(ALL, total, reach);
                    if (base + row < count) {
                        if (part == 0) scores[(u64)(q + n) * card_rows + first + row] = total;
                        lowest[n] = fminf(lowest[n], total);
                        highest[n] = fmaxf(highest[n], total);
                    }
                }
            }
        }
    }
    if (!queries) return;
#pragma unroll
    for (int n = 0; n < N; n++) {
        for (int reach = 16; reach; reach >>= 1) {
            lowest[n] = fminf(lowest[n], __shfl_xor_sync(ALL, lowest[n], reach));
            highest[n] = fmaxf(highest[n], __shfl_xor_sync(ALL, highest[n], reach));
        }
        if (lane == 0 && lowest[n] <= highest[n]) keep_range(queries + q + n, ordered(lowest[n]), ordered(highest[n]));
    }
}

extern "C" __global__ void dense_one(const Tile *tiles, Query *queries, const float *vectors, float *scores,
                                     u32 tile_rows, u32 card_rows, u32 width) {
    dense_rows<1>(tiles, queries, vectors, scores, tile_rows, card_rows, width);
}

extern "C" __global__ void dense_four(const Tile *tiles, Query *queries, const float *vectors, float *scores,
                                      u32 tile_rows, u32 card_rows, u32 width) {
    dense_rows<4>(tiles, queries, vectors, scores, tile_rows, card_rows, width);
}

// The share of the best of so many passages, as grouping.best_share has it.
__device__ __forceinline__ float best_share(float best, u32 passages) {
    return passages ? fmaxf(0, best - (1 - best) / passages) : 0;
}

struct Pooled { // some passages of a document
    float largest, mean; // of their products; in the mean, passages have the weight of their shares
};

// Reads the products from `start` to `end` with `lanes` threads, of which this one is `part`. `shares` is null if the
// document is one passage.
__device__ __forceinline__ Pooled pooled(const float *products, const float *shares, u32 start, u32 end, u32 part,
                                         u32 lanes) {
    Pooled all = {-3e38f, 0};
#pragma unroll 4
    for (u32 p = start + part; p < end; p += lanes) {
        float product = products[p];
        all.largest = fmaxf(all.largest, product);
        all.mean += product * (shares ? shares[p] : 1);
    }
    for (u32 reach = lanes / 2; reach; reach >>= 1) {
        all.largest = fmaxf(all.largest, __shfl_xor_sync(ALL, all.largest, reach));
        all.mean += __shfl_xor_sync(ALL, all.mean, reach);
    }
    return all;
}

// Computes the dense score of each document from the products of its passages, as grouping.document_scores does. A
// document is read by as many threads as the documents of its tile have passages on average, and a much longer one by a
// whole warp.
extern "C" __global__ void __launch_bounds__(256) pool(const Tile *tiles, Query *queries, const float *products,
                                                       float *scores, u32 tile_rows, u32 card_rows, u32 passages) {
    const u32 MANY = 16; // passages that a thread reads at most
    __shared__ u32 lowest, highest;
    u32 blocks = gridDim.x / (card_rows / tile_rows), warps = blocks * (blockDim.x >> 5), q = blockIdx.y; // of a tile
    const Tile &tile = tiles[blockIdx.x / blocks];
    const u32 *starts = tile.passage_starts, count = tile.count;
    u32 lanes = starts ? 1u << min(5, 31 - __clz((starts[count] - starts[0]) / count)) : 1, each = 32 / lanes;
    u32 lane = threadIdx.x & 31, part = lane % lanes, in_warp = lane / lanes, low = ALL, high = 0;
    u32 warp = blockIdx.x % blocks * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const float *mine = products + (u64)q * passages + tile.products, *shares = tile.passage_shares;
    float best = queries[q].best, *to = scores + (u64)q * card_rows + blockIdx.x / blocks * tile_rows;
    if (threadIdx.x == 0) lowest = ALL, highest = 0;
    __syncthreads();
    for (u32 base = warp * each; base < count; base += warps * each) { // all threads of a warp stay in the loop
        u32 row = base + in_warp, start = row, end = row + 1;
        if (row >= count) end = start;
        else if (starts) start = starts[row], end = starts[row + 1];
        bool is_long = end - start > MANY * lanes;
        Pooled found = pooled(mine, shares, start, is_long ? start : end, part, lanes);
        for (u32 waiting = __ballot_sync(ALL, is_long && part == 0); waiting; waiting &= waiting - 1) {
            u32 from = __ffs(waiting) - 1, first = __shfl_sync(ALL, start, from), last = __shfl_sync(ALL, end, from);
            Pooled whole = pooled(mine, shares, first, last, lane, 32);
            if (from == lane - part) found = whole;
        }
        float score = found.mean + best_share(best, end - start) * (found.largest - found.mean);
        if (row < count) {
            if (part == 0) to[row] = score;
            low = min(low, ordered(score));
            high = max(high, ordered(score));
        }
    }
    low = ~warp_max(~low);
    high = warp_max(high);
    if (lane == 0) atomicMin(&lowest, low), atomicMax(&highest, high);
    __syncthreads();
    if (threadIdx.x == 0 && lowest <= highest) keep_range(queries + q, lowest, highest);
}

// Computes the unit and margin of queries with dense scores, which are known now, as `retrieve` does on the CPU.
extern "C" __global__ void scale(Query *queries, u32 count) {
    u32 q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= count) return;
    Query &query = queries[q];
    float lowest = unordered(query.dense_lowest), highest = unordered(query.dense_highest);
    double reach = query.reach + (double)(highest - lowest);
    double unit = (double)(LARGEST_SCORE - query.spare) / (reach > 0 ? reach : 1.0);
    u64 margin = (u64)ceil(query.reach * unit / LEVELS) + query.spare;
    if (query.most) margin = min((u64)LARGEST_SCORE, margin + (u64)(query.unseen * unit) + 1);
    query.lowest = lowest;
    query.unit = unit;
    query.margin = (u32)margin;
}

// --- stage one

__device__ __forceinline__ const Entry *find_list(const Tile &tile, u32 key) {
    if (key >= tile.keys) return 0;
    u32 at = tile.key_starts[key], end = tile.key_starts[key + 1];
    if (end - at == tile.blocks) return tile.entries + at + tile.block;
    while (at < end && tile.list_blocks[at] < tile.block) at++;
    return at < end && tile.list_blocks[at] == tile.block ? tile.entries + at : 0;
}

__device__ __forceinline__ void add_posting(u32 *sums, u32 row, u32 score) { atomicAdd(sums + row, score); }

__device__ __forceinline__ void add_group(u32 *sums, uint4 rows, uint2 values, u32 step) {
    add_posting(sums, rows.x & 0xffff, step * (values.x & 0xff));
    add_posting(sums, rows.x >> 16, step * (values.x >> 8 & 0xff));
    add_posting(sums, rows.y & 0xffff, step * (values.x >> 16 & 0xff));
    add_posting(sums, rows.y >> 16, step * (values.x >> 24));
    add_posting(sums, rows.z & 0xffff, step * (values.y & 0xff));
    add_posting(sums, rows.z >> 16, step * (values.y >> 8 & 0xff));
    add_posting(sums, rows.w & 0xffff, step * (values.y >> 16 & 0xff));
    add_posting(sums, rows.w >> 16, step * (values.y >> 24));
}

// Warps take units in turn and load AHEAD of them before they add the first.
__device__ __forceinline__ void add_units(u32 *sums, const uint4 *units, u32 count, const Tile &tile, u32 lane, u32 warp) {
    const u32 WARPS = THREADS / 32;
    const uint4 *all_rows = tile.rows + lane;
    const uint2 *all_values = tile.values + lane;
    uint4 rows[AHEAD];
    uint2 values[AHEAD];
    u32 steps[AHEAD]; // 0 if this thread has nothing to add
    auto fetch = [&](int slot, u32 at) {
        steps[slot] = 0;
        if (at < count) {
            uint4 unit = units[at];
            if (lane < unit.y) {
                rows[slot] = __ldcs(all_rows + unit.x);
                values[slot] = __ldcs(all_values + unit.x);
                steps[slot] = unit.z;
            }
        }
    };
#pragma unroll
    for (int slot = 0; slot < AHEAD; slot++) fetch(slot, warp + slot * WARPS);
    for (u32 at = warp; at < count; at += AHEAD * WARPS) {
#pragma unroll
        for (int slot = 0; slot < AHEAD; slot++) {
            if (steps[slot]) add_group(sums, rows[slot], values[slot], steps[slot]);
            fetch(slot, at + (slot + AHEAD) * WARPS);
        }
    }
}

// Scores the documents of a tile. Lists are cut into units of 32 groups, which the warps take in turn, so that a list
// with half of the documents keeps all warps busy. The largest score of each 128 documents is kept and counted: if k of
// these are above a score, k documents are above it.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    score(const Tile *tiles, const Query *queries, const u32 *keys, const float *weights, const float *extra,
          const u32 *allowed, u32 *scores, u32 *maxima, u32 *bins, u32 tile_rows, u32 card_rows) {
    extern __shared__ uint4 shared[];
    u32 *sums = (u32 *)shared;
    uint4 *units = shared + tile_rows / 4; // UNITS: first group, number of groups, step
    __shared__ u32 totals[32];
    const u32 WARPS = THREADS / 32, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 q = blockIdx.x, first = blockIdx.y * tile_rows;
    const Tile &tile = tiles[blockIdx.y];
    const Query &query = queries[q];
    const double unit = query.unit;
    for (u32 i = threadIdx.x; i < tile_rows / 4; i += THREADS) shared[i] = make_uint4(0, 0, 0, 0);
    for (u32 from = 0; from < query.strong; from += THREADS * KEYS_EACH) {
        u32 start[KEYS_EACH], groups[KEYS_EACH], step[KEYS_EACH], mine = 0;
#pragma unroll
        for (int i = 0; i < KEYS_EACH; i++) {
            u32 at = from + i * THREADS + threadIdx.x;
            const Entry *found = at < query.strong ? find_list(tile, keys[query.first_key + at]) : 0;
            groups[i] = 0;
            if (found) {
                Entry entry = *found;
                start[i] = entry.start;
                groups[i] = entry.groups;
                double maximum = half_bits(entry.maximum);
                step[i] = (u32)ceil((double)weights[query.first_key + at] * maximum * unit / LEVELS);
            }
            mine += (groups[i] + 31) >> 5;
        }
        u32 end = block_scan(mine, totals), all = totals[WARPS - 1];
        __syncthreads();
        for (u32 base = 0; base < all; base += UNITS) {
            u32 to = end - mine;
#pragma unroll
            for (int i = 0; i < KEYS_EACH; i++)
                for (u32 done = 0; done < groups[i]; done += 32, to++)
                    if (to - base < UNITS) units[to - base] = make_uint4(start[i] + done, min(32u, groups[i] - done), step[i], 0);
            __syncthreads();
            add_units(sums, units, min((u32)UNITS, all - base), tile, lane, warp);
            __syncthreads();
        }
    }
    if (query.strong == 0) __syncthreads();
    for (u32 chunk = warp; chunk < tile_rows / CHUNK; chunk += WARPS) {
        u32 row = chunk * CHUNK + lane * 4;
        uint4 four = shared[row >> 2];
        u32 score[4] = {four.x, four.y, four.z, four.w};
        if (query.flags & EXTRA) {
            float4 dense = *(const float4 *)(extra + (u64)q * card_rows + first + row);
            float more[4] = {dense.x, dense.y, dense.z, dense.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (row + i < tile.count) score[i] += (u32)ceil((double)(more[i] - query.lowest) * unit) + 1;
        }
        if (allowed) {
            u32 bits = allowed[(first + row) >> 5] >> (row & 31);
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (!(bits >> i & 1)) score[i] = 0;
        }
        u32 largest = warp_max(max(max(score[0], score[1]), max(score[2], score[3])));
        if (largest)
            *(uint4 *)(scores + (u64)q * card_rows + first + row) = make_uint4(score[0], score[1], score[2], score[3]);
        __syncwarp();
        if (lane == 0) sums[chunk * CHUNK] = largest; // the scores of the chunk are not needed any more
    }
    __syncthreads();
    for (u32 from = 0; from < tile_rows / CHUNK; from += THREADS) {
        u32 chunk = from + threadIdx.x, largest = chunk < tile_rows / CHUNK ? sums[chunk * CHUNK] : 0;
        u32 bin = bin_of(largest), same = __match_any_sync(ALL, bin);
        if (chunk < tile_rows / CHUNK) maxima[(u64)q * (card_rows / CHUNK) + first / CHUNK + chunk] = largest;
        if (largest && (same & ((1u << lane) - 1)) == 0)
            atomicAdd(bins + q * 2 * BINS + place_of(bin), __popc(same));
    }
}

// Collects every document that can still be among the k best, or is surely among the best `most`.
extern "C" __global__ void __launch_bounds__(1024) collect(Query *queries, const u32 *scores, const u32 *maxima, const u32 *bins, u64 *candidates,
                                   u32 room, u32 card_rows) {
    __shared__ u32 totals[32], found[2];
    u32 q = blockIdx.y, lane = threadIdx.x & 31, chunks = card_rows / CHUNK;
    Query &query = queries[q];
    u32 edge = edge_of(bin_reaching(bins + q * 2 * BINS, query.hold, totals, found));
    u32 lowest = edge > query.margin + 1 ? edge - query.margin - 1 : 0;
    if (query.most) {
        u32 other = edge_of(bin_reaching(bins + q * 2 * BINS, query.most, totals, found));
        lowest = max(lowest, other ? other - 1 : 0);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) query.first_edge = edge;
    for (u32 from = (blockIdx.x * blockDim.x + threadIdx.x) & ~31u; from < chunks; from += gridDim.x * blockDim.x) {
        u32 mine = from + lane < chunks ? maxima[(u64)q * chunks + from + lane] : 0;
        u32 passing = __ballot_sync(ALL, mine > lowest);
        while (passing) { // up to four chunks at a time: scores are loaded together, places are taken together
            u32 rows[4], count = 0;
            uint4 score[4];
#pragma unroll
            for (int c = 0; c < 4; c++) {
                score[c] = make_uint4(0, 0, 0, 0);
                if (passing) {
                    rows[c] = (from + __ffs(passing) - 1) * CHUNK + lane * 4;
                    score[c] = *(const uint4 *)(scores + (u64)q * card_rows + rows[c]);
                    passing &= passing - 1;
                }
            }
#pragma unroll
            for (int c = 0; c < 4; c++)
                count += (score[c].x > lowest) + (score[c].y > lowest) + (score[c].z > lowest) + (score[c].w > lowest);
            u32 before = count;
            for (int reach = 1; reach < 32; reach <<= 1) {
                u32 other = __shfl_up_sync(ALL, before, reach);
                if (lane >= reach) before += other;
            }
            u32 base = 0;
            if (lane == 31) base = atomicAdd(&query.candidates, before);
            u32 to = __shfl_sync(ALL, base, 31) + before - count;
            auto take = [&](u32 value, u32 row) {
                if (value <= lowest) return;
                if (to < room) candidates[(u64)q * room + to] = (u64)value << 32 | (u32)~row;
                to++;
            };
#pragma unroll
            for (int c = 0; c < 4; c++) {
                take(score[c].x, rows[c]);
                take(score[c].y, rows[c] + 1);
                take(score[c].z, rows[c] + 2);
                take(score[c].w, rows[c] + 3);
            }
        }
    }
}

// Finds the key of the last of the best `most` candidates, if there are more. Equal scores are ordered by position.
extern "C" __global__ void __launch_bounds__(1024) cut(Query *queries, const u64 *candidates, u32 room) {
    __shared__ u32 counts[BINS], totals[32], found[2]; // BINS is 1 << 11
    Query &query = queries[blockIdx.y];
    const u64 *mine = candidates + (u64)blockIdx.y * room;
    u32 count = min(query.candidates, room);
    if (query.most == 0 || count <= query.most) return;
    u64 known = 0; // the leading bits of the key that is searched
    u32 wanted = query.most;
    for (int shift = 53; shift >= -2; shift -= 11) { // 11 bits at a time, and 9 at the end
        int down = max(shift, 0), width = shift < 0 ? 9 : 11;
        for (u32 i = threadIdx.x; i < BINS; i += blockDim.x) counts[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < count; i += blockDim.x)
            if (shift == 53 || mine[i] >> (down + width) == known)
                atomicAdd(counts + place_of((u32)(mine[i] >> down & ((1u << width) - 1))), 1);
        __syncthreads();
        u32 digit = bin_reaching(counts, wanted, totals, found);
        wanted -= found[1];
        known = known << width | digit;
        bool settled = counts[place_of(digit)] == wanted || shift < 0; // all with these bits are among them
        __syncthreads();
        if (settled) {
            if (threadIdx.x == 0) query.cut = known << down;
            return;
        }
    }
}

// --- stage two

__device__ float exact_lexical(const Tile &tile, u32 row, const u32 *sieve, const float *table,
                               u32 vocab) { // called by a whole warp
    const int EACH = 8; // weights that a thread loads at once
    u32 lane = threadIdx.x & 31, start = tile.row_starts[row];
    u32 end = (u32)min((u64)tile.row_starts[row + 1], tile.weights);
    double total = 0; // summed in the order of keys, as on the CPU
    u32 next[EACH];
    u16 weights[EACH]; // weights that are not needed are loaded too: waiting for the keys first would take longer
    auto fetch = [&](u32 from) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            u32 at = from + i * 32 + lane;
            next[i] = ALL;
            weights[i] = at < end ? tile.row_weights[at] : 0;
            if (at < end) next[i] = tile.wide_keys ? ((const u32 *)tile.row_keys)[at] : ((const u16 *)tile.row_keys)[at];
        }
    };
    fetch(start);
    for (u32 from = start; from < end; from += 32 * EACH) {
        double products[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            u32 bit = next[i] & (SIEVE - 1);
            products[i] = 0;
            if (next[i] < vocab && sieve[bit >> 5] >> (bit & 31) & 1)
                products[i] = (double)table[next[i]] * (double)half_bits(weights[i]);
        }
        fetch(from + 32 * EACH); // while the sum is computed
#pragma unroll
        for (int i = 0; i < EACH; i++)
            for (u32 hits = __ballot_sync(ALL, products[i] != 0); hits; hits &= hits - 1)
                total += __shfl_sync(ALL, products[i], __ffs(hits) - 1);
    }
    return (float)total;
}

// Computes the products of N vectors, which lie one after the other, with the query's. Called by a whole warp.
template <int N>
__device__ __forceinline__ void exact_products(const uint4 *dense, u32 count, const float *vector, u32 width,
                                               float *products) {
#pragma unroll
    for (int n = 0; n < N; n++) products[n] = 0;
    for (u32 group = threadIdx.x & 31; group < width / 8; group += 32)
#pragma unroll
        for (int n = 0; n < N; n++)
            if (n < count) products[n] = dot8(dense[n * (width / 8) + group], vector + group * 8, products[n]);
#pragma unroll
    for (int n = 0; n < N; n++)
        for (int reach = 16; reach; reach >>= 1) products[n] += __shfl_xor_sync(ALL, products[n], reach);
}

__device__ float exact_dense(const Tile &tile, u32 row, const float *vector, u32 width, float best) { // by a whole warp
    const int AT_ONCE = 4; // passages, because a document may have thousands
    const u32 *starts = tile.passage_starts;
    float products[AT_ONCE], largest = -3e38f, mean = 0;
    if (!starts) {
        exact_products<1>(tile.dense + (u64)row * (width / 8), 1, vector, width, products);
        return products[0];
    }
    for (u32 p = starts[row], end = starts[row + 1]; p < end; p += AT_ONCE) {
        u32 count = min((u32)AT_ONCE, end - p);
        exact_products<AT_ONCE>(tile.dense + (u64)p * (width / 8), count, vector, width, products);
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++)
            if (n < count) {
                largest = fmaxf(largest, products[n]);
                mean += products[n] * tile.passage_shares[p + n];
            }
    }
    return mean + best_share(best, starts[row + 1] - starts[row]) * (largest - mean);
}

__device__ __forceinline__ float bound_of(const Query &query, u32 score) {
    return (float)((double)score / query.unit * (1 + 1e-6) + ((double)query.lowest + query.unseen));
}

__device__ __forceinline__ u32 scaled(const Query &query, float score) { // rises with the score
    return (u32)min(max(((double)score - query.lowest) * query.unit, 0.0), (double)LARGEST_SCORE);
}

// Computes exact scores: first of the k candidates with the highest bounds, or some more, and in a second launch of the
// others whose bound reaches the lowest of these scores.
extern "C" __global__ void __launch_bounds__(256) rescore(const Tile *tiles, Query *queries, const uint4 *sieves,
                                   const float *vectors, const float *table, const float *extra, const u64 *candidates,
                                   u64 *finalists, float *lexical, float *dense, u32 *bins, u32 room, u32 tile_rows,
                                   u32 card_rows, u32 vocab, u32 width, u32 again) {
    __shared__ uint4 sieve[SIEVE / 128];
    __shared__ u32 held[256], count, base;
    u32 q = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Query &query = queries[q];
    u32 all = min(query.candidates, room), each = (all + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each;
    u32 end = min(all, begin + each);
    const bool at_once = all <= FEW || query.most || query.flags & (EVERY_CANDIDATE | BOUNDS);
    if (begin >= end || (again && at_once)) return;
    for (u32 i = threadIdx.x; i < SIEVE / 128; i += blockDim.x) sieve[i] = sieves[q * (SIEVE / 128) + i];
    float least = 0;
    if (again) {
        least = unordered(query.least);
        least -= 1e-5f * fabsf(least);
    }
    for (u32 from = begin; from < end; from += blockDim.x) {
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        u32 at = from + threadIdx.x;
        if (at < end && candidates[(u64)q * room + at] >= query.cut) {
            u32 score = (u32)(candidates[(u64)q * room + at] >> 32);
            bool first = score >= query.first_edge || at_once;
            if (again ? !first && bound_of(query, score) >= least : first) held[atomicAdd(&count, 1)] = at;
        }
        __syncthreads();
        if (threadIdx.x == 0 && count) base = atomicAdd(&query.finalists, count);
        __syncthreads();
        for (u32 i = warp; i < count; i += blockDim.x >> 5) {
            u64 key = candidates[(u64)q * room + held[i]];
            u32 row = ~(u32)key;
            const Tile &tile = tiles[row / tile_rows];
            float words, meaning = 0;
            if (query.flags & BOUNDS) words = bound_of(query, (u32)(key >> 32));
            else words = exact_lexical(tile, row % tile_rows, (const u32 *)sieve, table + (u64)q * vocab, vocab);
            if (query.flags & DENSE_OF_CANDIDATES)
                meaning = exact_dense(tile, row % tile_rows, vectors + q * width, width, query.best);
            else if (query.flags & EXTRA) meaning = extra[(u64)q * card_rows + row];
            if (lane == 0) {
                float total = words + meaning;
                u32 to = base + i;
                finalists[(u64)q * room + to] = (u64)ordered(total) << 32 | (u32)~row;
                lexical[(u64)q * room + to] = words;
                dense[(u64)q * room + to] = meaning;
                atomicAdd(bins + q * 2 * BINS + BINS + place_of(bin_of(scaled(query, total))), 1);
                if (!again && ordered(total) < *(volatile u32 *)&query.least) atomicMin(&query.least, ordered(total));
            }
        }
        __syncthreads();
    }
}

// Ranks each finalist by counting those before it. Equal scores are ordered by position here, and those that tie with
// the k-th are returned too, so that the host can sort them by id. Clears table and sieve for the next search.
extern "C" __global__ void __launch_bounds__(1024) order(const Tile *tiles, Query *queries, const u32 *keys, float *table, u32 *sieves, const u64 *finalists,
                                 const float *lexical, const float *dense, const u32 *bins, u32 *to_positions,
                                 float *to_lexical, float *to_dense, u32 room, u32 results, u32 tile_rows, u32 vocab) {
    __shared__ u32 totals[32], found[2], passing;
    __shared__ u64 near[NEAR];
    u32 q = blockIdx.y, lane = threadIdx.x & 31;
    Query &query = queries[q];
    const u64 *mine = finalists + (u64)q * room;
    if (blockIdx.x == 0)
        for (u32 i = threadIdx.x; i < query.keys; i += blockDim.x) {
            u32 key = keys[query.first_key + i];
            table[(u64)q * vocab + key] = 0;
            sieves[q * (SIEVE / 32) + (key & (SIEVE - 1)) / 32] = 0;
        }
    u32 count = query.finalists;
    if (count > RANKED) return;
    u32 edge = bin_reaching(bins + q * 2 * BINS + BINS, query.k, totals, found);
    if (threadIdx.x == 0) passing = 0;
    __syncthreads();
    for (u32 from = threadIdx.x; from < count; from += 4 * blockDim.x) { // finalists that can be among the k best
        u64 keys[4];
#pragma unroll
        for (int i = 0; i < 4; i++) keys[i] = from + i * blockDim.x < count ? mine[from + i * blockDim.x] : 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (keys[i] && bin_of(scaled(query, unordered((u32)(keys[i] >> 32)))) >= edge) {
                u32 to = atomicAdd(&passing, 1);
                if (to < NEAR) near[to] = keys[i];
            }
    }
    __syncthreads();
    bool fits = passing <= NEAR;
    const u64 *others = fits ? near : mine;
    u32 rivals = fits ? passing : count, warps = gridDim.x * (blockDim.x >> 5);
    for (u32 at = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); at < count; at += warps) {
        u64 key = mine[at];
        if (bin_of(scaled(query, unordered((u32)(key >> 32)))) < edge) continue;
        u32 higher = 0, before = 0;
#pragma unroll 4
        for (u32 i = lane; i < rivals; i += 32) {
            u64 other = others[i];
            higher += other >> 32 > key >> 32;
            before += other > key;
        }
        higher = warp_sum(higher);
        before = warp_sum(before);
        if (lane == 0 && higher < query.k) {
            atomicAdd(&query.returned, 1);
            if (before < results) {
                u32 row = ~(u32)key;
                to_positions[(u64)q * results + before] = tiles[row / tile_rows].first + row % tile_rows;
                to_lexical[(u64)q * results + before] = lexical[(u64)q * room + at];
                to_dense[(u64)q * results + before] = dense[(u64)q * room + at];
            }
        }
    }
}
