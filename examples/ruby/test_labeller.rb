# Tests with an API server of their own:
#
#   bundle install
#   kanzen test -- ruby test_labeller.rb
require 'kubeclient'
require 'minitest/autorun'
require_relative 'labeller'

CONTEXT = Kubeclient::Config.read(ENV.fetch('KUBECONFIG')).context # kanzen test has set it

def client(path)
  Kubeclient::Client.new(CONTEXT.api_endpoint + path, 'v1', ssl_options: CONTEXT.ssl_options)
end

# The definition is served with the answer: there is nothing to wait for.
client('/apis/apiextensions.k8s.io').create_custom_resource_definition(
  Kubeclient::Resource.new(
    metadata: { name: 'widgets.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'widgets', singular: 'widget', kind: 'Widget' },
      versions: [{
        name: 'v1', served: true, storage: true,
        schema: { openAPIV3Schema: { type: 'object', properties: {
          spec: { type: 'object', properties: { size: { type: 'integer', minimum: 1 } } }
        } } }
      }]
    }
  )
)

class LabellerTest < Minitest::Test
  def setup
    @api = client('/apis/example.com')
    @namespace = client('/api').create_namespace(Kubeclient::Resource.new(metadata: { generateName: 'test-' })).metadata.name
  end

  def create(name, size)
    @api.create_widget(Kubeclient::Resource.new(metadata: { name: name, namespace: @namespace }, spec: { size: size }))
  end

  def test_labels
    create('a', 3)
    create('b', 30)
    seen = {}
    Labeller.run(@api, @namespace) do |widget|
      seen[widget.metadata.name] = widget.metadata.labels[:size]
      seen.size == 2
    end
    assert_equal({ 'a' => 'small', 'b' => 'big' }, seen)
  end

  def test_schema
    refused = assert_raises(Kubeclient::HttpError) { create('none', 0) }
    assert_equal 422, refused.error_code
    assert_match 'spec.size', refused.message
  end
end
