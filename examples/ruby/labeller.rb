# An operator in a few lines: it labels the Widgets of a namespace with their size.
module Labeller
  module_function

  def label(widget)
    widget.spec[:size] > 10 ? 'big' : 'small'
  end

  # Labels what is there and what comes, until the block says that this was the last one.
  def run(api, namespace)
    events = api.watch_widgets(namespace: namespace)
    events.each do |event|
      next unless %w[ADDED MODIFIED].include?(event.type)

      widget = event.object
      if widget.metadata.labels.to_h[:size] != label(widget)
        patch = { metadata: { labels: { size: label(widget) } } }
        widget = api.merge_patch_widget(widget.metadata.name, patch, namespace)
      end
      break if yield widget
    end
  ensure
    events&.finish
  end
end
