plugins {
    alias(libs.plugins.android.library)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "org.handspan.bridge"
}

dependencies {
    api(project(":client"))
    api(project(":provider"))
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
