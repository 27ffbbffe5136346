plugins {
    alias(libs.plugins.android.library)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "org.handspan.json"
}

dependencies {
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
