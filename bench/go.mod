module github.com/kanzen-io/kanzen/bench

go 1.26.0
