package flowcontrol

import (
	"math"
	"time"
)

// integrator tracks a value over time: its average, standard deviation and maximum over a period.
type integrator struct {
	at                time.Time
	value, greatest   float64
	seconds, sum, sqr float64 // integrals of 1, the value and its square
}

// set changes the value from now on.
func (i *integrator) set(now time.Time, value float64) {
	i.advance(now)
	i.value = value
	i.greatest = max(i.greatest, value)
}

func (i *integrator) advance(now time.Time) {
	if d := now.Sub(i.at).Seconds(); d > 0 {
		i.seconds += d
		i.sum += i.value * d
		i.sqr += i.value * i.value * d
	}
	i.at = now
}

// period holds the statistics of one period.
type period struct{ seconds, average, deviation, greatest float64 }

// reset ends a period, returns it and begins the next.
func (i *integrator) reset(now time.Time) period {
	i.advance(now)
	p := period{seconds: i.seconds, greatest: i.greatest}
	if i.seconds > 0 {
		p.average = i.sum / i.seconds
		p.deviation = math.Sqrt(max(0, i.sqr/i.seconds-p.average*p.average))
	}
	i.seconds, i.sum, i.sqr, i.greatest = 0, 0, 0, i.value
	return p
}

// demand is the number of seats that a level wanted in past periods.
type demand struct {
	period
	high     int     // the maximum of the last period
	smoothed float64 // rises at once, falls slowly
}

// smoothing is the part of the smoothed demand that stays from one period to the next when demand falls.
const smoothing = 0.977

func (d *demand) add(p period) {
	d.high = int(math.Round(p.greatest))
	if p.seconds <= 0 {
		return
	}
	d.period = p
	envelope := p.average + p.deviation
	d.smoothed = max(envelope, smoothing*d.smoothed+(1-smoothing)*envelope)
}
