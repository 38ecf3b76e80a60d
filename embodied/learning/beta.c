/* The Beta law's parts of an update, as in beta.py, whose names and formulas these are, and Adam; compiled by native.py.
 *
 * Everything is in float32. A row of a head's outputs has 2 A numbers, first u, then v; `both` and `gammas` are planes
 * (2, rows, A), each plane `plane` floats long. alpha and beta are at least 1.
 */

#include <math.h>
#include <stdint.h>

#define MARGIN 1e-6f
#define LN_2_PI 1.837877066f
#define INLINE static inline __attribute__((always_inline))

typedef union { float f; int32_t i; } bits;

/* ln x of a normal positive number, within 1e-7 of its size; coefficients of Cephes' logf (Moshier, netlib.org/cephes). */
INLINE float ln(float x) {
    bits word = {x};
    const int32_t exponent = (word.i - 0x3f3504f3) >> 23;
    word.i -= exponent << 23;
    const float f = word.f - 1.0f, square = f * f, e = (float)exponent;
    float y = 7.0376836292e-2f;
    y = y * f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    y = y * f * square - 2.12194440e-4f * e - 0.5f * square;
    return f + y + 0.693359375f * e;
}

/* e^-|x|, but not less than e^-87; coefficients of Cephes' expf. The comparison is one of integers because compilers make
 * a branch of one of floats, and then no vectors. */
INLINE float power(float x) {
    bits size = {x};
    size.i &= 0x7fffffff;
    size.i = size.i < 0x42ae0000 ? size.i : 0x42ae0000;
    x = -size.f;
    const float n = (float)(int32_t)(x * 1.44269504f - 0.5f);
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    bits scale = {.i = ((int32_t)n + 127) << 23};
    return y * scale.f;
}

/* ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2 for x >= 1 and t = 1 / x; a polynomial in t, right to 5e-9. */
INLINE float remainder_of_stirling(float t) {
    float y = 0.000138318212f;
    y = y * t - 0.000633680243f;
    y = y * t + 0.00104963998f;
    y = y * t - 5.34357121e-05f;
    y = y * t - 0.00277252426f;
    y = y * t - 1.8227822e-07f;
    y = y * t + 0.0833333342f;
    return y * t;
}

/* ln x - psi(x) for x >= 1 and t = 1 / x; right to 2e-8. */
INLINE float ln_less_psi(float t) {
    float y = -0.000288952721f;
    y = y * t + 0.00188675954f;
    y = y * t - 0.00493746221f;
    y = y * t + 0.00593532543f;
    y = y * t - 0.000423789411f;
    y = y * t - 0.00828763894f;
    y = y * t - 1.91841208e-06f;
    y = y * t + 0.0833333468f;
    return t * (0.5f + y * t);
}

INLINE float softplus(float u) { return (u < 0.0f ? 0.0f : u) + ln(1.0f + power(u)); }

/* alpha and beta of each row; `work` has room for `raw` once more, and gets a = softplus(u), b = softplus(v). */
void concentrations(const float *restrict raw, long rows, long width, float limit, float *restrict both, long plane,
                    float *restrict work) {
    for (long k = 0; k < rows * 2 * width; k++) work[k] = softplus(raw[k]);
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            const float a = work[r * 2 * width + j], b = work[r * 2 * width + width + j];
            const float shrink = 1.0f / (1.0f + (a + b) / (limit - 2.0f));
            both[r * width + j] = 1.0f + a * shrink;
            both[plane + r * width + j] = 1.0f + b * shrink;
        }
}

/* A gamma draw for a shape >= 1 from one normal and one uniform number (Marsaglia and Tsang 2000, "A simple method for
 * generating gamma variables"); -1 where it is rejected, and no number for a shape that is none. */
INLINE float gamma_of(float shape, float normal, float uniform) {
    const float d = shape - 1.0f / 3.0f, root = 1.0f + normal / sqrtf(9.0f * d), v = root * root * root;
    const float safe = v > 1e-30f ? v : 1e-30f, u = uniform > 1e-30f ? uniform : 1e-30f;
    const int fits = (v > 1e-30f) & (ln(u) < 0.5f * normal * normal + d * (1.0f - safe + ln(safe)));
    return shape != shape ? shape : fits ? d * safe : -1.0f;
}

/* Gamma draws from `count + spare` normal and uniform numbers: those beyond `count` replace what was rejected. Returns
 * how many draws are -1 because that was not enough. */
long gammas(const float *restrict shape, const float *restrict normal, const float *restrict uniform, long count,
            long spare, float *restrict drawn) {
    long missing = 0, next = count;
    for (long k = 0; k < count; k++) drawn[k] = gamma_of(shape[k], normal[k], uniform[k]);
    for (long k = 0; k < count; k++) {
        for (; drawn[k] < 0.0f && next < count + spare; next++) drawn[k] = gamma_of(shape[k], normal[next], uniform[next]);
        missing += drawn[k] < 0.0f;
    }
    return missing;
}

/* Actions in unit coordinates, and the log-density of each row; `work` has room for `unit` once more.
 *
 * ln B(alpha, beta) with the great parts of its logarithms of gamma functions taken out, s = alpha + beta:
 * (alpha - 1/2) ln(alpha / s) + (beta - 1/2) ln(beta / s) - ln(s) / 2 + ln(2 pi) / 2 + remainders. */
void density(const float *restrict both, const float *restrict drawn, long rows, long width, long plane,
             float *restrict unit, float *restrict log_prob, float *restrict work) {
    for (long k = 0; k < rows * width; k++) {
        const float alpha = both[k], beta = both[plane + k], sum = alpha + beta;
        float x = drawn[k] / (drawn[k] + drawn[plane + k]);
        x = x < MARGIN ? MARGIN : x > 1.0f - MARGIN ? 1.0f - MARGIN : x;
        const float t = 1.0f / sum, rest = remainder_of_stirling(1.0f / alpha) + remainder_of_stirling(1.0f / beta);
        const float ln_beta = (alpha - 0.5f) * ln(alpha * t) + (beta - 0.5f) * ln(beta * t) - 0.5f * ln(sum) +
                              0.5f * LN_2_PI + rest - remainder_of_stirling(t);
        unit[k] = x;
        work[k] = (alpha - 1.0f) * ln(x) + (beta - 1.0f) * ln(1.0f - x) - ln_beta;
    }
    for (long r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (long j = 0; j < width; j++) sum += work[r * width + j];
        log_prob[r] = sum;
    }
}

/* Gradient by the head's outputs, (rows, 2 A), of a loss with the gradients `unit_slope` (rows, A) by the actions and
 * `density_slope` by each log-density. gamma_slope: (2, rows, A), of the draws by their shapes; planes of its own are
 * rows * width apart. work: (4, rows, A). */
void raw_gradient(const float *restrict raw, const float *restrict both, const float *restrict drawn,
                  const float *restrict unit, const float *restrict gamma_slope, const float *restrict unit_slope,
                  float density_slope, float limit, long rows, long width, long plane, float *restrict result,
                  float *restrict work) {
    const long size = rows * width;
    float *restrict by_beta = work + size, *restrict excess = work + 2 * size;
    for (long k = 0; k < size; k++) {
        const float alpha = both[k], beta = both[plane + k], sum = alpha + beta, x = unit[k], rest = 1.0f - x;
        const float total = drawn[k] + drawn[plane + k], t = 1.0f / sum;
        const float by_x = unit_slope[k] + density_slope * ((alpha - 1.0f) / x - (beta - 1.0f) / rest);
        const float slope = (x > MARGIN) & (x < 1.0f - MARGIN) ? by_x / total : 0.0f, shared = ln_less_psi(t);
        work[k] = slope * rest * gamma_slope[k] +
                  density_slope * (ln(x) - ln(alpha * t) + ln_less_psi(1.0f / alpha) - shared);
        by_beta[k] = -slope * x * gamma_slope[size + k] +
                     density_slope * (ln(rest) - ln(beta * t) + ln_less_psi(1.0f / beta) - shared);
    }
    for (long k = 0; k < 2 * size; k++) {
        excess[k] = softplus(raw[k]);
        result[k] = 1.0f / (1.0f + power(raw[k]));
        result[k] = raw[k] > 0.0f ? result[k] : 1.0f - result[k];
    }
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            const long k = r * width + j, u = r * 2 * width + j, v = u + width;
            const float shrink = 1.0f / (1.0f + (excess[u] + excess[v]) / (limit - 2.0f));
            const float shared = (work[k] * excess[u] + by_beta[k] * excess[v]) * shrink / (limit - 2.0f);
            result[u] *= (work[k] - shared) * shrink;
            result[v] *= (by_beta[k] - shared) * shrink;
        }
}

/* One step of Adam (Kingma and Ba 2015, arXiv 1412.6980) with torch's defaults; `steps` counts this one already. */
void adam(float *restrict values, const float *restrict slopes, float *restrict mean, float *restrict square, long count,
          double steps, double step_size) {
    const double first = 0.9, second = 0.999;
    const float size = (float)(step_size / (1.0 - pow(first, steps))), root = (float)sqrt(1.0 - pow(second, steps));
    for (long k = 0; k < count; k++) {
        mean[k] += (slopes[k] - mean[k]) * (float)(1.0 - first);
        square[k] = square[k] * (float)second + slopes[k] * slopes[k] * (float)(1.0 - second);
        values[k] -= size * mean[k] / (sqrtf(square[k]) / root + 1e-8f);
    }
}
